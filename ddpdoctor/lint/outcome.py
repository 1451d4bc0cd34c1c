"""What came of one program, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.findings import Finding


@dataclass(frozen=True)
class Judged:
    """reached: the files the program consists of; problems: those that could not be read, with
    the reason; exhausted: it cost too much to be followed to its end."""

    findings: tuple[Finding, ...]
    distributed: bool
    reached: tuple[Path, ...]
    problems: tuple[tuple[Path, str], ...]
    exhausted: bool


@dataclass(frozen=True)
class Evidence:
    """Everything outside the tool that a judgement depends on.

    roots: the folders where the script's imports are looked for; files: the digest of each file
    it reads, None for one that it does not find; searches: what each import was found to mean;
    listings: the files of folders that may say how it is launched.
    """

    roots: tuple[str, ...]
    files: dict[str, str | None]
    searches: tuple[tuple[str, tuple[str, ...], str | None], ...]
    listings: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Outcome:
    """judged is None where the script could not be judged: problem says why in one line, and
    failed that the fault is the tool's own. evidence: of what was judged."""

    judged: Judged | None
    problem: str = ""
    failed: bool = False
    evidence: Evidence | None = None
