"""Pid namespaces: the same process has one number here, and maybe another one for the driver."""

from __future__ import annotations

import pwd
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddpdoctor.gpus.placement import RankProcess


def nspids(pid: int | str = "self", proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The process's pids in its namespaces, outermost visible first; () if it is not there.

    From NSpid in /proc/<pid>/status (Linux 4.1). /proc shows the namespaces from the one it was
    mounted in inwards: a process of a container shows its host's pid only to a reader outside.
    """
    try:
        status = (proc / str(pid) / "status").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ()
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return tuple(map(int, line.split()[1:]))
    return ()


def match(pids: Collection[int], ranks: Sequence[RankProcess]) -> dict[int, RankProcess]:
    """Which of the driver's pids is which rank's process.

    The driver numbers all processes in one namespace (the host's, or with newer drivers that of
    whoever asks), so one level of NSpid is taken for all ranks: the one that explains most pids,
    the outermost of equals. Mixing levels would take the host's pid 12 for a container's.
    """
    levels = [{process.pid: process for process in ranks}]
    for level in range(max((len(process.nspids) for process in ranks), default=0)):
        levels.append(
            {process.nspids[level]: process for process in ranks if len(process.nspids) > level}
        )
    best = max(levels, key=lambda numbers: len(numbers.keys() & set(pids)))
    return {pid: best[pid] for pid in pids if pid in best}


def neighbours(pids: Iterable[int], proc: Path = Path("/proc")) -> dict[int, str]:
    """Those of the pids that exist here, each with a note who it is: "python3 of user ada"."""
    return {pid: note for pid in pids if (note := _who(proc / str(pid)))}


def _who(process: Path) -> str:
    try:
        command = (process / "comm").read_text("utf-8", "replace").strip()
        user = process.stat().st_uid
    except (FileNotFoundError, ProcessLookupError):
        return ""
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)  # a user of a container, or of a directory service that is down
    return f"{command} of user {name}"
