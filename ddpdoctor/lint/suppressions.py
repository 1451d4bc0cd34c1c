"""Comments that keep a finding from being reported: # noqa: DDP101, # ddpdoctor: ignore[DDP101].

Only real comments count: the tree knows them from text in strings. Without a list of rules they
speak of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from ddpdoctor.findings import Finding
from ddpdoctor.lint.positions import positions
from ddpdoctor.lint.walking import within

_COMMENT = re.compile(
    r"#\s*noqa\b(?::\s*(?P<noqa>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?"
    r"|#\s*ddpdoctor:\s*ignore\b(?:\[(?P<own>[^\]]*)\])?",
    re.IGNORECASE,
)
_ANY = ("",)


def unsuppressed(findings: Iterable[Finding], tree: cst.Module, text: str) -> list[Finding]:
    """The findings of one file that no comment on their first or last line speaks of."""
    found = list(findings)
    if not found or not _COMMENT.search(text):
        return found
    by_row = _comments(tree, text)
    return [finding for finding in found if not _is_suppressed(finding, by_row)]


def _is_suppressed(finding: Finding, by_row: dict[int, tuple[str, ...]]) -> bool:
    rows = {place.row for place in (finding.location, finding.end_location) if place is not None}
    return any(finding.code.startswith(by_row[row]) for row in rows if row in by_row)


def _comments(tree: cst.Module, text: str) -> dict[int, tuple[str, ...]]:
    """The rules that a comment switches off, by its row; a code is a leading part of a rule's."""
    comments: list[tuple[cst.Comment, tuple[str, ...]]] = []
    for node in within(tree):
        if isinstance(node, cst.Comment):
            match = _COMMENT.search(node.value)
            if match is not None:
                comments.append((node, _codes(match)))
    places = positions(tree, [comment for comment, _ in comments], text)
    return {places[id(comment)][0].row: codes for comment, codes in comments}


def _codes(match: re.Match[str]) -> tuple[str, ...]:
    listed = match["noqa"] or match["own"]
    return tuple(re.findall(r"[A-Z]+[0-9]+", listed.upper())) if listed else _ANY
