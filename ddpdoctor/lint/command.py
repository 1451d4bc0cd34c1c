"""`ddpdoctor lint`: from the options to a report and an exit code."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ddpdoctor.config import Config, find_config
from ddpdoctor.findings import Applicability, DdpdoctorError, Finding, Severity
from ddpdoctor.lint import Linted, lint, repair
from ddpdoctor.report import Screen, Summary, closing, render
from ddpdoctor.report.terminal import printable, write
from ddpdoctor.report.words import count

if TYPE_CHECKING:
    from ddpdoctor.lint.rounds import Repaired


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
    """Exit code 0: nothing found but remarks (or, with --diff, nothing to change), 1: something,
    2: nothing, but a program could not be judged by a fault of ours. Raises DdpdoctorError."""
    files = [Path(path) for path in paths or (".",)]
    config = _with_options(find_config(files), select, ignore)
    if not fix and not diff:
        if unsafe_fixes:
            raise DdpdoctorError("--unsafe-fixes goes with --fix or --diff")
        return _report(lint(files, config, cached=not no_cache), output_format, verbose)
    repaired = repair(files, config, unsafe=unsafe_fixes)
    if diff:
        return _show_diff(repaired)
    from ddpdoctor.lint.replacing import replace_files

    replace_files(repaired.before, repaired.after)
    code = _report(repaired.linted, output_format, verbose)
    _tell(repaired, "repaired", sys.stdout if output_format == "text" else sys.stderr)
    return code


def _report(linted: Linted, output_format: str, verbose: bool) -> int:
    summary = Summary(linted.files, linted.programs, linted.skipped, len(linted.unfinished))
    findings = linted.findings
    if output_format != "json":  # which has whole paths, as ruff's
        findings = tuple(_seen_from_here(finding) for finding in findings)
    write(render(findings, output_format, summary, Screen.of(sys.stdout)), sys.stdout)
    if output_format != "text":
        write(closing(linted.findings, summary), sys.stderr)
    if verbose:
        for program in linted.unfinished:
            write(f"{printable(program)} is too large to be followed to its end.\n", sys.stderr)
    if any(finding.severity is not Severity.INFO for finding in findings):
        return 1
    return 2 if linted.failed else 0


def _seen_from_here(finding: Finding) -> Finding:
    assert finding.filename is not None  # lint's findings stand in a file
    return replace(
        finding,
        filename=_from_here(Path(finding.filename)),
        related=tuple(
            replace(place, filename=_from_here(Path(place.filename))) for place in finding.related
        ),
    )


def _show_diff(repaired: Repaired) -> int:
    from ddpdoctor.lint.edits import encoding_of
    from ddpdoctor.report.diff import unified_diff

    screen = Screen.of(sys.stdout)
    for path, after in repaired.after.items():
        before = repaired.before[path]
        encoding = encoding_of(before).removesuffix("-sig")  # a mark is shown, too
        shown = unified_diff(
            _from_here(path), before.decode(encoding), after.decode(encoding), screen
        )
        if screen.terminal:
            write(shown, sys.stdout)
        else:  # in the file's own bytes, so that `patch` takes it
            sys.stdout.buffer.write(shown.encode(encoding))
            sys.stdout.buffer.flush()
    _tell(repaired, "to repair", sys.stderr)
    return 1 if repaired.after else 0


def _tell(repaired: Repaired, what: str, stream: TextIO) -> None:
    lines = [*repaired.refused]
    if repaired.after:
        findings = count(repaired.repaired, "finding")
        lines.append(f"{findings} {what} in {count(len(repaired.after), 'file')}.")
    elif (
        any(
            finding.fix is not None and finding.fix.applicability is Applicability.UNSAFE
            for finding in repaired.linted.findings
        )
        and not repaired.unsafe
    ):
        lines.append("Nothing to repair without --unsafe-fixes.")
    else:
        lines.append("Nothing to repair.")
    write("".join(f"{printable(line)}\n" for line in lines), stream)


def _from_here(path: Path) -> str:
    """As a person in the current folder would write it."""
    here = Path(os.path.realpath("."))
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _with_options(config: Config, select: str | None, ignore: str | None) -> Config:
    """The command line's rules: --select in place of the project's, --ignore on top of it."""
    return replace(
        config,
        select=_words(select) or config.select,
        ignore=(*config.ignore, *_words(ignore)),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
