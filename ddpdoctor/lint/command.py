"""`ddpdoctor lint`: from the options to a report and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint import lint
from ddpdoctor.lint.rule import all_rules
from ddpdoctor.report import Screen, Summary, closing, render
from ddpdoctor.report.terminal import write


def lint_command(
    paths: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    select: str | None,
    ignore: str | None,
    output_format: str,
    no_cache: bool,
    verbose: bool,
) -> int:
    """Exit code 0: nothing found, 1: findings. Raises DdpdoctorError."""
    codes = chosen_rules(select, ignore)
    linted = lint([Path(path) for path in paths or (".",)], codes=codes)
    summary = Summary(linted.files, linted.programs, linted.skipped)
    write(render(linted.findings, output_format, summary, Screen.of(sys.stdout)), sys.stdout)
    if output_format != "text":
        write(closing(linted.findings, summary), sys.stderr)
    return 1 if linted.findings else 0


def chosen_rules(select: str | None, ignore: str | None) -> list[str]:
    """The codes to apply; a prefix such as DDP1 means a group."""
    known = list(all_rules())
    chosen = _matching(select, known) if select else known
    left_out = _matching(ignore, known) if ignore else []
    return [code for code in chosen if code not in left_out]


def _matching(text: str, known: list[str]) -> list[str]:
    codes: list[str] = []
    for word in filter(None, (part.strip().upper() for part in text.split(","))):
        matches = [code for code in known if code.startswith(word)]
        if not matches:
            raise DdpdoctorError(f"unknown rule {word}; `ddpdoctor rules` lists them")
        codes += matches
    return codes
