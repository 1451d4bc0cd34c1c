"""Edits on the text of files: which fixes go together, and what becomes of a file."""

from __future__ import annotations

import io
import tokenize
import warnings
from collections.abc import Iterable
from pathlib import Path

from ddpdoctor.findings import Edit, Fix
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


def by_file(fixes: Iterable[Fix]) -> dict[Path, set[Edit]]:
    """The edits of these fixes, each once."""
    files: dict[Path, set[Edit]] = {}
    for fix in fixes:
        for edit in fix.edits:
            files.setdefault(Path(edit.filename), set()).add(edit)
    return files


def edited(data: bytes, edits: Iterable[Edit], path: Path) -> bytes:
    """A file's bytes after the edits; every byte outside them stays.

    Raises Unreadable where the result would be no Python program.
    """
    try:
        encoding = encoding_of(data)
        text = data.decode(encoding)
        lines = Lines(text)
        spans = sorted(
            (lines.offset(edit.location), lines.offset(edit.end_location), edit.content)
            for edit in edits
        )
        for start, end, content in reversed(spans):
            text = text[:start] + content + text[end:]
        after = text.encode(encoding)
    except (SyntaxError, ValueError) as error:  # a UnicodeError is a ValueError
        raise Unreadable(f"cannot be edited ({error})") from None
    parse(after, path)
    if _compiles(data) and not _compiles(after):
        raise Unreadable("would no longer compile")
    return after


def encoding_of(data: bytes) -> str:
    """"utf-8-sig" where there is a byte order mark. Raises SyntaxError."""
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
