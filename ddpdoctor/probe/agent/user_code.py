"""The user's own lines among the frames of a process, and where a variable was made."""

from __future__ import annotations

import ast
import functools
import linecache
import os
from types import CodeType, FrameType
from typing import Any

from ddpdoctor.virtual.devices import COUNT_VARIABLE
from ddpdoctor.virtual.user_files import is_user_file

Frames = list[tuple[FrameType, int]]  # innermost first, each with its line


def has_virtual_gpus() -> bool:
    return os.environ.get(COUNT_VARIABLE, "0") != "0"


def frames_of(error: BaseException) -> Frames:
    """The frames that an exception passed through."""
    frames: Frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.insert(0, (trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def stack(frame: FrameType | None) -> Frames:
    """The frames from this one outwards."""
    frames: Frames = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return frames


def user_place(frames: Frames) -> dict[str, Any] | None:
    """The innermost line of the user's program among the frames."""
    for frame, row in frames:
        if is_user_file(frame.f_code.co_filename):
            return place(frame.f_code.co_filename, row)
    return None


def place(filename: str, row: int) -> dict[str, Any]:
    return {
        "filename": os.path.abspath(filename),
        "row": row,
        "source": linecache.getline(filename, row).strip(),
    }


def assigned_before(code: CodeType, name: str, row: int) -> dict[str, Any] | None:
    """The last line before row that assigns name in that function, read from its text.

    Read from the text and not watched at run time, so that it costs nothing until something has
    failed, and works on real GPUs alike. None for an argument that is never assigned.
    """
    rows = [
        node.lineno
        for node in ast.walk(_tree(code.co_filename))
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        and code.co_firstlineno <= node.lineno < row
    ]
    return place(code.co_filename, max(rows)) if rows else None


@functools.lru_cache(maxsize=8)
def _tree(filename: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:  # a notebook cell, a template: no text to read
        return ast.Module([], [])
