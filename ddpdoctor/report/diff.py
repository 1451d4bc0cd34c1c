"""What a fix changes in a file, as a unified diff that `patch` and `git apply` take."""

from __future__ import annotations

import difflib

from ddpdoctor.report.terminal import Screen, printable

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def unified_diff(filename: str, before: str, after: str, screen: Screen) -> str:
    """The diff of one file; empty where nothing changes.

    Piped, the file's own characters and line ends stay as they are, so that the diff applies; on
    a terminal what is not visible is written as escapes.
    """
    name = printable(filename)
    lines = []
    for line in difflib.unified_diff(_lines(before), _lines(after), name, name):
        body = line.removesuffix("\n")
        if screen.terminal:
            body = "\t".join(printable(part) for part in body.removesuffix("\r").split("\t"))
        lines.append(_coloured(body, screen))
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return "".join(f"{line}\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Split at \\n alone: for `patch` every other separator is a character of its line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    return lines if lines[-1] else lines[:-1]


def _coloured(line: str, screen: Screen) -> str:
    if line.startswith(("--- ", "+++ ")):
        return screen.style(line, bold=True)
    return screen.style(line, _COLOURS.get(line[:1]))
