"""The static analyzer: runs a program in the abstract, as some rank k > 0, and never for real."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddpdoctor.config import Config
from ddpdoctor.findings import Finding

if TYPE_CHECKING:
    from ddpdoctor.lint.rounds import Repaired


@dataclass(frozen=True)
class Linted:
    """files: how many were looked at; programs: how many distributed ones; skipped: one line a
    file that could not be judged; unfinished: the programs that cost too much to be followed to
    their end; failed: the tool itself broke down on one of them."""

    findings: tuple[Finding, ...]
    files: int
    programs: int
    skipped: tuple[str, ...]
    unfinished: tuple[str, ...] = ()
    failed: bool = False


def lint(paths: Iterable[Path], config: Config | None = None, *, cached: bool = False) -> Linted:
    """Findings of the programs in these files and folders, by every rule unless config says
    otherwise. cached: use what is known from earlier runs. Raises DdpdoctorError where the job
    cannot be done."""
    from ddpdoctor.lint.deep_stack import with_deep_stack
    from ddpdoctor.lint.engine import lint_paths

    return with_deep_stack(lambda: lint_paths(list(paths), config or Config(), cached=cached))


def repair(
    paths: Iterable[Path], config: Config | None = None, *, unsafe: bool = False
) -> Repaired:
    """What the fixes make of these files and folders; nothing is written. unsafe: all fixes, not
    the safe ones alone. Raises DdpdoctorError where the job cannot be done."""
    from ddpdoctor.lint.deep_stack import with_deep_stack
    from ddpdoctor.lint.engine import lint_paths
    from ddpdoctor.lint.rounds import repair

    wanted, settings = list(paths), config or Config()
    return with_deep_stack(
        lambda: repair(lambda contents: lint_paths(wanted, settings, contents), unsafe=unsafe)
    )


def fix(paths: Iterable[Path], *, unsafe: bool = False) -> Repaired:
    """Repairs files in place. Raises DdpdoctorError, and writes nothing, where that cannot be."""
    from ddpdoctor.lint.replacing import replace_files

    repaired = repair(paths, unsafe=unsafe)
    replace_files(repaired.before, repaired.after)
    return repaired
