"""The source lines of a place, with carets under it."""

from __future__ import annotations

import os
import tokenize
from functools import lru_cache

from ddpdoctor.findings import Location
from ddpdoctor.report.terminal import Screen, printable, width

_BEFORE, _AFTER = 2, 1
_TAB = 4
_CUT = "..."


def source_lines(filename: str) -> tuple[str, ...]:
    """The lines of a source file as Python counts them; none where it cannot be read as text."""
    try:
        status = os.stat(filename)
    except (OSError, ValueError):  # gone, null in name
        return ()
    return _lines(os.path.abspath(filename), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _lines(filename: str, *version: int) -> tuple[str, ...]:
    try:
        with tokenize.open(filename) as file:
            # Not splitlines(): Python ends a line at \n, \r\n and \r alone, while a form feed or
            # U+2028 stays inside one.
            return tuple(file.read().split("\n"))
    except (OSError, SyntaxError, ValueError):  # gone, an unknown coding, undecodable
        return ()


def place(
    pointer: str,
    filename: str,
    start: Location,
    end: Location | None,
    *,
    note: str = "",
    context: bool = True,
    screen: Screen,
    colour: str,
) -> list[str]:
    """`--> file:row:column`, then the lines around it in a gutter of numbers, carets under it.

    Of a line longer than the screen the part around the carets is shown. No excerpt where the file
    has no such line (any more).
    """
    lines = source_lines(filename)
    known = 1 <= start.row <= len(lines)
    before, after = (_BEFORE, _AFTER) if context and known else (0, 0)
    rows = range(max(start.row - before, 1), min(start.row + after, len(lines)) + 1)
    gutter = max(len(str(start.row + after)), 2)
    style = screen.style
    bar = style("|", "blue", bold=True)
    where = style(pointer, "blue", bold=True)
    out = [f"{'':{gutter}}{where} {printable(filename)}:{start.row}:{start.column}{note}"]
    if not known:
        return out

    offsets = [offset for offset, _ in _layout(lines[start.row - 1])]
    first, stop = span(lines[start.row - 1], start, end)
    begin = offsets[first]
    finish = max(offsets[stop], begin + 1)
    room = max(screen.columns - gutter - 3, 20)
    left = _window(begin, finish, max(finish, offsets[-1]), room)
    carets = "^" * (min(finish, left + room) - begin)
    mark = " " * (begin - left) + style(carets, colour, bold=True)

    out.append(f"{'':{gutter}} {bar}")
    for row in _without_blank_ends(rows, start.row, lines):
        number = style(f"{row:>{gutter}}", "blue", bold=True)
        out.append(f"{number} {bar} {_part(lines[row - 1], left, room)}".rstrip())
        if row == start.row:
            out.append(f"{'':{gutter}} {bar} {mark}")
    return [*out, out[1]]


def span(line: str, start: Location, end: Location | None) -> tuple[int, int]:
    """First and last (exclusive) character of the line to mark, counted from 0.

    A place of several lines is marked on its first. One without an end is marked at its first
    character, or all of its line where it stands before the code (a frame has no column).
    """
    code = len(line.rstrip())
    indent = code - len(line.strip())
    first = min(start.column - 1, len(line))
    if end is not None:
        last = end.column - 1 if end.row == start.row else code
    elif first <= indent:
        first, last = indent, code
    else:
        last = first + 1
    return first, max(first, min(last, len(line)))


def _layout(line: str) -> list[tuple[int, str]]:
    """For each character of the line its first cell and what is shown there; last the end."""
    layout = []
    offset = 0
    for char in line:
        shown = " " * (_TAB - offset % _TAB) if char == "\t" else printable(char)
        layout.append((offset, shown))
        offset += width(shown)
    return [*layout, (offset, "")]


def _window(begin: int, finish: int, length: int, room: int) -> int:
    """The first cell to show so that the carets are in view, with some of what leads to them."""
    if length <= room or finish <= room - len(_CUT):
        return 0
    lead = max((room - (finish - begin)) // 2, len(_CUT))
    return max(min(begin - lead, length - room), 0)


def _part(line: str, left: int, room: int) -> str:
    """The cells of a line from left, at most room; dots where the line goes on."""
    layout = _layout(line)
    length = layout[-1][0]
    first = left + len(_CUT) if left else 0
    last = left + room - (len(_CUT) if length > left + room else 0)
    shown = [(at, text) for at, text in layout if at >= first and at + width(text) <= last]
    if not left:
        body = "".join(text for _, text in shown)
    else:
        # A wide character cut in half at the left leaves a blank.
        body = _CUT + " " * ((shown[0][0] if shown else first) - first)
        body += "".join(text for _, text in shown)
    return body + (_CUT if length > left + room else "")


def _without_blank_ends(rows: range, kept: int, lines: tuple[str, ...]) -> range:
    first, last = rows.start, rows.stop - 1
    while first < kept and not lines[first - 1].strip():
        first += 1
    while last > kept and not lines[last - 1].strip():
        last -= 1
    return range(first, last + 1)
