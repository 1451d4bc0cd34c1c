"""The Python stack of each rank, from outside, by py-spy where it is installed."""

from __future__ import annotations

import json
import linecache
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpdoctor.gpus.placement import RankRow
from ddpdoctor.probe.results import Place, StackGroup

NOT_INSTALLED = "no stacks: py-spy is not installed (pip install py-spy)"
_SECONDS = 30
# Frames of the import system, of installed packages and of the standard library, of whatever
# Python the rank runs on.
_LIBRARY = re.compile(r"^<frozen |/(site|dist)-packages/|/lib/python3\.\d+/")
_Frame = tuple[str, int, str]  # file, line, function


def py_spy() -> str | None:
    """Beside this Python first, which is where pip puts it in an environment not activated."""
    return shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")


def stacks(ranks: Sequence[RankRow], spy: str) -> tuple[StackGroup, ...]:
    """Ranks that stand in the same stack together; a group smaller than the largest is odd."""
    together: dict[tuple[tuple[_Frame, ...], str], list[int]] = {}
    for rank in ranks:
        together.setdefault(_stack(rank.pid, spy), []).append(rank.rank)
    most = max(map(len, together.values()), default=0)
    return tuple(
        StackGroup(
            ranks=tuple(numbers),
            waiting=None,
            frames=tuple(f"{file}:{row} in {function}" for file, row, function in frames),
            place=_user_place(frames),
            odd=len(numbers) < most,
            problem=problem,
        )
        for (frames, problem), numbers in together.items()
    )


def _user_place(frames: Sequence[_Frame]) -> Place | None:
    for file, row, _ in frames:
        if not _LIBRARY.search(file):
            return Place(file, row, linecache.getline(file, row).strip())
    return None


def _stack(pid: int, spy: str) -> tuple[tuple[_Frame, ...], str]:
    """The main thread's frames, innermost first, or () and why there are none."""
    try:
        done = subprocess.run(
            [spy, "dump", "--json", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return (), f"py-spy had no answer from pid {pid} in {_SECONDS} seconds"
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        denied = any("ermission denied" in line for line in said)
        why = "tracing it is not permitted; try as root" if denied else None
        return (), f"py-spy, pid {pid}: {why or (said or ['it failed without a word'])[0]}"
    try:
        threads: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        return (), f"py-spy, pid {pid}: its answer cannot be read"
    if not threads:
        return (), f"py-spy, pid {pid}: it saw no thread"
    # The main thread's id is the pid, except for a process of an inner pid namespace.
    main = [
        thread
        for thread in threads
        if thread["os_thread_id"] == pid or thread["thread_name"] == "MainThread"
    ]
    frames = (main or threads)[0]["frames"]
    return tuple((frame["filename"], frame["line"], frame["name"]) for frame in frames), ""
