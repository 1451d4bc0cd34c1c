"""What /proc tells of the processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.gpus.pids import neighbours, nspids


@dataclass(frozen=True)
class Process:
    """A running process.

    who: "python3 of user ada". environ: as it was when the process started, which is all /proc
    has; None where it may not be read.
    """

    pid: int
    parent: int
    who: str
    command: tuple[str, ...]
    nspids: tuple[int, ...]
    environ: Mapping[str, str] | None

    @property
    def is_torchrun(self) -> bool:
        """Does it start ranks as torchrun does, by whatever name it was called?"""
        return any(
            Path(argument).name == "torchrun"
            or argument in ("torch.distributed.run", "torch.distributed.launch")
            or argument.endswith(("torch/distributed/run.py", "torch/distributed/launch.py"))
            for argument in self.command[:4]
        )


def running() -> dict[int, Process]:
    """Every process that /proc shows, by pid; those that end meanwhile are left out."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := _read(entry)):
            found[process.pid] = process
    return found


def _read(folder: Path) -> Process | None:
    pid = int(folder.name)
    try:
        stat = (folder / "stat").read_text("utf-8", "replace")
        command = (folder / "cmdline").read_bytes()
        environ: dict[str, str] | None
        try:
            pairs = (folder / "environ").read_bytes()
            environ = dict(
                os.fsdecode(pair).split("=", 1) for pair in pairs.split(b"\0") if b"=" in pair
            )
        except PermissionError:
            environ = None  # of another user: the kernel asks for the right to trace the process
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in brackets and may hold any character.
    state, parent = stat.rpartition(")")[2].split()[:2]
    who = neighbours([pid]).get(pid)
    if state in "ZX" or who is None:
        return None
    return Process(
        pid=pid,
        parent=int(parent),
        who=who,
        command=tuple(os.fsdecode(part) for part in command.rstrip(b"\0").split(b"\0")),
        nspids=nspids(pid),
        environ=environ,
    )
