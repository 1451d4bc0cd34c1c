"""Python stacks of running ranks: asked for by a signal, written by faulthandler.

faulthandler's handler runs in C at once, so it also answers for a process that is stuck in C++,
in a collective or in backward, where a Python signal handler would never run.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from ddpdoctor.probe.agent import STACK_SIGNAL

_PATIENCE_SECONDS = 3.0
_THREAD = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+)")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')

Frame = tuple[str, int, str]  # file, line, function


def ask_stacks(folder: Path, main_threads: Mapping[int, int]) -> dict[int, tuple[Frame, ...]]:
    """The main thread's stack of each process, innermost first.

    main_threads: by pid, the identifier of its main thread; only processes whose agent has written
    it may be asked. A process that does not answer in time is left out.
    """
    sizes = {pid: _size(folder, pid) for pid in main_threads}
    for pid in main_threads:
        try:
            os.kill(pid, STACK_SIGNAL)
        except ProcessLookupError:
            continue  # it ended meanwhile
    deadline = time.monotonic() + _PATIENCE_SECONDS
    waiting: Collection[int] = main_threads
    stacks: dict[int, tuple[Frame, ...]] = {}
    while waiting and time.monotonic() < deadline:
        time.sleep(0.1)
        before = {pid: _size(folder, pid) for pid in waiting}
        time.sleep(0.1)
        for pid in list(waiting):
            if sizes[pid] < before[pid] == _size(folder, pid):  # written, and whole
                stacks[pid] = _main_stack(_text(folder, pid, sizes[pid]), main_threads[pid])
        waiting = main_threads.keys() - stacks.keys()
    return stacks


def _main_stack(dump: str, thread: int) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    inside = False
    for line in dump.splitlines():
        if heading := _THREAD.match(line):
            inside = int(heading[1], 16) == thread
        elif inside and (frame := _FRAME.match(line)):
            frames.append((frame[1], int(frame[2]), frame[3]))
    return tuple(frames)


def _size(folder: Path, pid: int) -> int:
    path = folder / f"process-{pid}.stacks"
    return path.stat().st_size if path.exists() else 0


def _text(folder: Path, pid: int, start: int) -> str:
    with open(folder / f"process-{pid}.stacks", "rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")
