"""Repairs in rounds: lint, apply the fixes that go together, lint what came of it, and so on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.findings import Applicability, Finding, Fix
from ddpdoctor.lint import Linted
from ddpdoctor.lint.edits import by_file, edited, together
from ddpdoctor.lint.sources import Unreadable, read

# Fixes that touch each other wait for the next round; real programs need two or three.
_MOST_ROUNDS = 20


@dataclass(frozen=True)
class Repaired:
    """What became of a lint run. linted: what is left; repaired: how many findings are gone.

    before, after: the bytes of the files that change. refused: one line a file whose repairs were
    left out.
    """

    linted: Linted
    repaired: int
    before: dict[Path, bytes]
    after: dict[Path, bytes]
    refused: tuple[str, ...]


def repair(lint: Callable[[Mapping[Path, bytes]], Linted], *, unsafe: bool) -> Repaired:
    """Repairs what can be repaired, in memory. lint: judges the programs as if these files (by
    their real paths) had these contents.

    A fix that leaves its finding standing is not applied, so a second run finds nothing to do.
    """
    files = _Files()
    first = linted = lint({})
    useless: set[_Offer] = set()
    refused: dict[Path, str] = {}
    for _ in range(_MOST_ROUNDS):
        offers = _offers(linted, files, unsafe)
        fixes = together(fix for offer, fix in offers if offer not in useless)
        if not fixes:
            break
        try:
            tried = files.with_edits(fixes)
        except _Refused as problem:
            path = problem.path
            refused[path] = f"{path} is left as it is: with its repairs it {problem.reason}"
            useless |= {offer for offer, fix in offers if path in by_file([fix])}
            continue
        relinted = lint(tried.after)
        before = Counter(offer for offer, _ in offers)
        after = Counter(offer for offer, _ in _offers(relinted, tried, unsafe))
        idle = {offer for offer, fix in offers if fix in fixes and after[offer] >= before[offer]}
        if idle - useless:
            useless |= idle
            continue
        files, linted = tried, relinted
    return Repaired(
        linted,
        max(len(first.findings) - len(linted.findings), 0),
        {path: files.before[path] for path in files.after},
        files.after,
        tuple(refused.values()),
    )


# A fix as it is known again in the next round, when rows have moved: its code and file, the line
# of source it stands on, and the texts of its edits.
_Offer = tuple[str, str, bytes, tuple[str, ...]]


def _offers(linted: Linted, files: _Files, unsafe: bool) -> list[tuple[_Offer, Fix]]:
    offers = []
    for finding in linted.findings:
        fix = finding.fix
        if fix is not None and (unsafe or fix.applicability is Applicability.SAFE):
            texts = tuple(edit.content for edit in fix.edits)
            name = finding.filename or ""
            offers.append(((finding.code, name, files.line(finding), texts), fix))
    return offers


@dataclass(frozen=True)
class _Files:
    """Files by their real paths: as they are on the disk, and as they are after the rounds."""

    before: dict[Path, bytes] = field(default_factory=dict)
    after: dict[Path, bytes] = field(default_factory=dict)

    def data(self, path: Path) -> bytes:
        if path not in self.before:
            self.before[path] = read(path)
        return self.after.get(path, self.before[path])

    def line(self, finding: Finding) -> bytes:
        if finding.filename is None or finding.location is None:
            return b""
        lines = self.data(_real(finding.filename)).splitlines()
        return b"".join(lines[finding.location.row - 1 : finding.location.row])

    def with_edits(self, fixes: list[Fix]) -> _Files:
        """Raises _Refused."""
        after = dict(self.after)
        for path, edits in by_file(fixes).items():
            real = _real(path)
            try:
                after[real] = edited(self.data(real), edits, real)
            except Unreadable as problem:
                raise _Refused(path, str(problem)) from None
        return _Files(self.before, after)


class _Refused(Exception):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
