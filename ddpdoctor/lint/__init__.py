"""The static analyzer: runs a program in the abstract, as some rank k > 0, and never for real."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.findings import Finding


@dataclass(frozen=True)
class Linted:
    """files: how many were looked at; programs: how many distributed ones; skipped: one line a
    file that could not be judged."""

    findings: tuple[Finding, ...]
    files: int
    programs: int
    skipped: tuple[str, ...]


def lint(
    paths: Iterable[Path], *, codes: Sequence[str] | None = None, tables: Iterable[Path] = ()
) -> Linted:
    """Findings of the programs in these files and folders.

    codes: the rules to apply, all by default. Raises DdpdoctorError where the job cannot be done.
    """
    from ddpdoctor.lint.analysis import with_deep_stack
    from ddpdoctor.lint.engine import lint_paths

    return with_deep_stack(lambda: lint_paths(list(paths), codes, list(tables)))


def analyze(paths: Iterable[Path]) -> tuple[Finding, ...]:
    """The findings alone. Raises DdpdoctorError where the job cannot be done."""
    return lint(paths).findings
