"""Repairs in rounds: lint, apply the fixes that go together, lint what came of it, and so on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.findings import Applicability, Finding
from ddpdoctor.lint import Linted
from ddpdoctor.lint.edits import by_file, edited, together
from ddpdoctor.lint.positions import LINE_END
from ddpdoctor.lint.sources import Unreadable, read

Contents = Mapping[Path, bytes]
Lint = Callable[[Contents], Linted]

# Fixes that touch each other wait for the next round; real programs need two or three.
_MOST_ROUNDS = 20

# A fix as it is known again in the next round: its code, file, line of source, and edits' texts.
_Offer = tuple[str, str, bytes, tuple[str, ...]]


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


@dataclass
class _Files:
    """The files as they are on disk, and as they are after the rounds so far."""

    before: dict[Path, bytes] = field(default_factory=dict)
    after: dict[Path, bytes] = field(default_factory=dict)

    def data(self, path: Path) -> bytes:
        if path not in self.before:
            self.before[path] = read(path)
        return self.after.get(path, self.before[path])


def repair(lint: Lint, *, unsafe: bool) -> Repaired:
    """Repairs what can be repaired, in memory; lint judges the programs with some files replaced.

    A fix that leaves its finding standing is not applied, so a second run finds nothing to do.
    """
    files = _Files()
    first = linted = lint({})
    useless: set[_Offer] = set()
    refused: dict[Path, str] = {}
    for _ in range(_MOST_ROUNDS):
        offers = {
            _offer(finding, files): finding
            for finding in linted.findings
            if finding.fix is not None
            and (unsafe or finding.fix.applicability is Applicability.SAFE)
        }
        fixes = together(
            finding.fix
            for offer, finding in offers.items()
            if finding.fix is not None
            and offer not in useless
            and not any(_real(edit.filename) in refused for edit in finding.fix.edits)
        )
        if not fixes:
            break
        after = dict(files.after)
        for path, edits in by_file(fixes).items():
            real = _real(path)
            try:
                after[real] = edited(files.data(real), edits, path)
            except Unreadable as problem:
                refused[real] = f"{path}: left as it is, with the repairs it {problem}"
        if refused and any(_real(path) in refused for path in by_file(fixes)):
            continue
        relinted = lint(after)
        tried = _Files(files.before, after)
        again = {
            _offer(finding, tried) for finding in relinted.findings if finding.fix is not None
        } & {offer for offer, finding in offers.items() if finding.fix in fixes}
        if again - useless:
            useless |= again
            continue
        files.after, linted = after, relinted
    return Repaired(
        linted,
        max(len(first.findings) - len(linted.findings), 0),
        {path: files.before[path] for path in files.after},
        files.after,
        tuple(refused.values()),
    )


def _offer(finding: Finding, files: _Files) -> _Offer:
    assert finding.fix is not None
    line = b""
    if finding.filename is not None and finding.location is not None:
        data = files.data(_real(finding.filename))
        line = data.splitlines()[finding.location.row - 1 :][:1]
    return (
        finding.code,
        finding.filename or "",
        line,
        tuple(edit.content for edit in finding.fix.edits),
    )


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
