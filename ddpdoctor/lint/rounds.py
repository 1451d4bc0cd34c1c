"""Repairs in rounds: lint, apply the fixes that go together, lint what came of it, and so on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.findings import Applicability, Edit, Finding, Fix, Location
from ddpdoctor.lint import Linted
from ddpdoctor.lint.edits import edited, moved, together
from ddpdoctor.lint.sources import Unreadable, read

# Fixes that touch each other wait for the next round. Real programs need two or three; the others
# are for finding out which of many fixes does harm.
_MOST_ROUNDS = 60


@dataclass(frozen=True)
class Repaired:
    """What became of a lint run. linted: what is left; repaired: how many findings are gone;
    unsafe: whether unsafe fixes were among those to apply.

    before, after: the bytes of the files that change. refused: one line a file whose repairs were
    left out.
    """

    linted: Linted
    repaired: int
    unsafe: bool
    before: dict[Path, bytes]
    after: dict[Path, bytes]
    refused: tuple[str, ...]


def repair(lint: Callable[[Mapping[Path, bytes]], Linted], *, unsafe: bool) -> Repaired:
    """Repairs what can be repaired, in memory. lint: judges the programs as if these files (by
    their real paths) had these contents.

    A fix that leaves its finding standing, or after which more is found than before, is not
    applied, so a second run finds nothing to do.
    """
    before: dict[Path, bytes] = {}
    after: dict[Path, bytes] = {}
    first = linted = lint({})
    useless: set[_Key] = set()
    refused: dict[Path, str] = {}
    most: int | None = None  # how many fixes to try at once
    for _ in range(_MOST_ROUNDS):
        offers = {
            _key(finding): finding.fix
            for finding in linted.findings
            if finding.fix is not None
            and (unsafe or finding.fix.applicability is Applicability.SAFE)
        }
        fixes = together(fix for key, fix in offers.items() if key not in useless)[:most]
        if not fixes:
            break
        edits = _by_real_path(fixes)
        for path in edits:
            before.setdefault(path, read(path))
        try:
            tried = {**after, **_edited({**before, **after}, edits)}
        except _Refused as problem:
            refused[problem.path] = str(problem)
            useless |= {key for key, fix in offers.items() if problem.path in _by_real_path([fix])}
            continue
        relinted = lint(tried)

        worse = len(relinted.findings) > len(linted.findings)
        if worse and len(fixes) > 1:
            most = len(fixes) // 2
            continue
        most = None
        contents = {**before, **after}
        now = {key: _moved(key, contents, edits) for key in {*offers, *useless}}
        standing = {_key(finding) for finding in relinted.findings}
        idle = {
            key for key, fix in offers.items() if fix in fixes and (worse or now[key] in standing)
        }
        if idle - useless:
            useless |= idle
            continue
        useless = {now[key] for key in useless}
        after, linted = tried, relinted
    return Repaired(
        linted,
        len(first.findings) - len(linted.findings),
        unsafe,
        {path: before[path] for path in after},
        after,
        tuple(refused.values()),
    )


# A finding as it is known again when its file has been edited: code, file and place.
_Key = tuple[str, Path, Location | None]
_Edits = dict[Path, set[Edit]]


def _key(finding: Finding) -> _Key:
    return finding.code, _real(finding.filename or ""), finding.location


def _moved(key: _Key, contents: Mapping[Path, bytes], edits: _Edits) -> _Key:
    """The finding's key after the edits, if it still stands then."""
    code, path, place = key
    if path not in edits or place is None:
        return key
    return code, path, moved(contents[path], edits[path], place)


class _Refused(Exception):
    """The text is a line for the user."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is left as it is, for with its repairs it would be of no use: {reason}"
        )
        self.path = path


def _edited(contents: Mapping[Path, bytes], edits: _Edits) -> dict[Path, bytes]:
    """Raises _Refused."""
    results = {}
    for path, changes in edits.items():
        try:
            results[path] = edited(contents[path], changes, path)
        except Unreadable as problem:
            raise _Refused(path, str(problem)) from None
    return results


def _by_real_path(fixes: Iterable[Fix]) -> _Edits:
    """The edits of these fixes, each once."""
    files: _Edits = {}
    for fix in fixes:
        for edit in fix.edits:
            files.setdefault(_real(edit.filename), set()).add(edit)
    return files


def _real(path: str) -> Path:
    return Path(os.path.realpath(path))
