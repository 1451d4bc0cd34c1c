"""Text that is safe and straight on a terminal: controls neutralised, widths counted, colours.

File names and source lines come from others: an escape sequence in them could repaint the screen,
and a bidirectional mark could show code in another order than Python reads it.
"""

from __future__ import annotations

import os
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TextIO

import click

_PIPED_COLUMNS = 100


@dataclass(frozen=True)
class Screen:
    """Where text is going to: its columns, whether colours show, whether it is a terminal."""

    columns: int = _PIPED_COLUMNS
    colour: bool = False
    terminal: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Screen:
        """Colours on a terminal alone, unless NO_COLOR or FORCE_COLOR says otherwise."""
        terminal = stream.isatty()
        columns = max(_columns_of_terminal(), 40) if terminal else _PIPED_COLUMNS
        colour = terminal and os.environ.get("TERM") != "dumb"
        if os.environ.get("FORCE_COLOR"):
            colour = True
        if os.environ.get("NO_COLOR"):
            colour = False
        return cls(columns, colour, terminal)

    def style(self, text: str, fg: str | None = None, bold: bool = False) -> str:
        return click.style(text, fg=fg, bold=bold or None) if self.colour and (fg or bold) else text


def _columns_of_terminal() -> int:
    import shutil  # imports every compression that Python knows

    return shutil.get_terminal_size().columns


def printable(text: str) -> str:
    """The text with every character that is not plainly visible written as its escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def width(text: str) -> int:
    """The number of terminal cells that a printable text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fit(text: str, cells: int) -> str:
    """A printable text padded with blanks, or cut with a "~" at its end, to so many cells."""
    if width(text) > cells:
        while width(text) > cells - 1:
            text = text[:-1]
        text += "~"
    return text + " " * (cells - width(text))


def wrapped(label: str, text: str, columns: int) -> list[str]:
    """The text after a label, in lines of at most so many columns, indented under its start.

    Words longer than a line (paths, code) stay whole so that they can be copied.
    """
    lines: list[str] = []
    for paragraph in text.splitlines():
        lines += textwrap.wrap(
            printable(paragraph),
            max(columns - len(label), 20),
            break_long_words=False,
            break_on_hyphens=False,
        )
    if not lines:
        return [label.rstrip()]
    return [label + lines[0], *(" " * len(label) + line for line in lines[1:])]


def write(text: str, stream: TextIO) -> None:
    """Print the text; what the stream's encoding lacks (a C locale) is written as escapes."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as os.fsdecode keeps it
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
