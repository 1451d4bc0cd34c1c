"""Edits on the text of files: which fixes go together, and what becomes of a file."""

from __future__ import annotations

import io
import tokenize
import warnings
from collections.abc import Iterable
from pathlib import Path

from ddpdoctor.findings import Edit, Fix, Location
from ddpdoctor.lint.positions import Lines
from ddpdoctor.lint.sources import Unreadable, parse


def together(fixes: Iterable[Fix]) -> list[Fix]:
    """The fixes that can be applied at once, the first of those that touch each other.

    Many findings share one repair, and repairs share an import: the same edit counts once.
    """
    chosen: list[Fix] = []
    edits: set[Edit] = set()
    for fix in fixes:
        if fix in chosen:
            continue
        if not any(_touch(new, old) for new in fix.edits for old in edits):
            chosen.append(fix)
            edits.update(fix.edits)
    return chosen


def edited(data: bytes, edits: Iterable[Edit], path: Path) -> bytes:
    """A file's bytes after the edits; every byte outside them stays.

    Raises Unreadable where the result would be no Python program.
    """
    try:
        encoding = encoding_of(data)
        lines = Lines(data.decode(encoding))
        text = lines.text
        for start, end, content in reversed(_spans(lines, edits)):
            text = text[:start] + content + text[end:]
        after = text.encode(encoding)
    except (SyntaxError, ValueError) as error:  # a UnicodeError is a ValueError
        raise Unreadable(f"cannot be edited ({error})") from None
    parse(after, path)
    if _compiles(data) and not _compiles(after):
        raise Unreadable("no longer compiles")
    return after


def moved(data: bytes, edits: Iterable[Edit], place: Location) -> Location:
    """Where the text at a place of a file stands after the edits."""
    encoding = encoding_of(data)
    lines = Lines(data.decode(encoding))
    offset = lines.offset(place)
    before = lines.text[:offset]
    for start, end, content in reversed(_spans(lines, edits)):
        if end <= offset:
            before = before[:start] + content + before[end:]
        elif start < offset:
            before = before[:start]
    return Lines(before).location(len(before))


def _spans(lines: Lines, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    return sorted(
        (lines.offset(edit.location), lines.offset(edit.end_location), edit.content)
        for edit in edits
    )


def encoding_of(data: bytes) -> str:
    """ "utf-8-sig" where there is a byte order mark. Raises SyntaxError."""
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _touch(a: Edit, b: Edit) -> bool:
    return (
        a != b
        and a.filename == b.filename
        and a.location <= b.end_location
        and b.location <= a.end_location
    )


def _compiles(data: bytes) -> bool:
    """Whether this Python takes it: beyond the grammar, also rules such as where a return is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
