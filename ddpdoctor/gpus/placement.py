"""The rank × GPU table: who held memory where, from the first sample to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddpdoctor.gpus.pids import match
from ddpdoctor.gpus.snapshot import Gpu, GpuProcess, Snapshot

PID_MISMATCH = (
    "pid namespace mismatch: the driver names processes on the GPUs (pid {pids}) that do not exist "
    "here, and no rank; so it is inside a container (start it with --pid=host), or where /proc "
    "hides other users' processes, and the ranks cannot be found on the GPUs"
)


@dataclass(frozen=True)
class RankProcess:
    """A process of a rank, as the process itself or its /proc entry tells.

    nspids: its ids in all pid namespaces it can see (NSpid), outermost first. visible: the UUIDs
    of its visible devices by CUDA device index, None where not known; with or without the "GPU-"
    that NVML writes and torch.cuda leaves out. A rank may have several processes (its data
    loading workers): each is listed with the same rank, the rank's own first.
    """

    rank: int
    local_rank: int
    pid: int
    nspids: tuple[int, ...] = ()
    visible: tuple[str, ...] | None = None

    @property
    def own(self) -> str | None:
        """UUID of the GPU that is this rank's: the visible device at its local rank.

        With one visible device that one is right under any local rank: torchrun's
        --virtual-local-rank and SLURM's --gpus-per-task give each rank one. With fewer devices
        than ranks, programs wrap around (rank % device_count).
        """
        if not self.visible:
            return None
        return self.visible[self.local_rank % len(self.visible)]


@dataclass(frozen=True)
class Occupant:
    """A process that held memory on a GPU.

    pid: the rank's own pid where it is one, else as the source reports it. peak_bytes: None where
    the driver never told. curve: (time, bytes) at each change, 0 when the process left. note: who
    the process is, or why its rank is not known; empty for a rank.
    """

    pid: int
    rank: int | None
    peak_bytes: int | None
    curve: tuple[tuple[float, int | None], ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "rank": self.rank, "bytes": self.peak_bytes, "note": self.note}


@dataclass(frozen=True)
class GpuRow:
    """One GPU over the whole time; problem: why its processes could not be read, or None."""

    index: int
    uuid: str
    name: str
    total_bytes: int | None
    processes: tuple[Occupant, ...]
    problem: str | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({p.rank for p in self.processes if p.rank is not None}))

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": self.name,
            "total_bytes": self.total_bytes,
            "processes": [process.to_dict() for process in self.processes],
            "problem": self.problem,
        }


@dataclass(frozen=True)
class RankRow:
    """One rank over the whole time.

    own: the index of its own GPU, None where not known. devices: the indices of the GPUs it held
    memory on. Indices are the source's (GpuRow.index), not CUDA's. visible: as in RankProcess.
    """

    rank: int
    local_rank: int
    pid: int
    own: int | None
    devices: tuple[int, ...]
    visible: tuple[str, ...] | None

    @property
    def home(self) -> int | None:
        """The GPU it lives on: its own if it holds memory there, else the first it is on."""
        if self.own in self.devices:
            return self.own
        return self.devices[0] if self.devices else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "local_rank": self.local_rank,
            "pid": self.pid,
            "own": self.own,
            "devices": list(self.devices),
        }


@dataclass(frozen=True)
class Placement:
    """Ranks by number, GPUs in the source's order, and what could not be read, a line each.

    pid_mismatch: GPUs are in use, but no pid there can be one of ours; the absence of a rank from
    the table then means nothing.
    """

    ranks: tuple[RankRow, ...]
    gpus: tuple[GpuRow, ...]
    problems: tuple[str, ...]
    pid_mismatch: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "ranks": [rank.to_dict() for rank in self.ranks],
            "gpus": [gpu.to_dict() for gpu in self.gpus],
            "problems": list(self.problems),
            "pid_mismatch": self.pid_mismatch,
        }


def place(
    samples: Sequence[Snapshot],
    ranks: Sequence[RankProcess],
    neighbours: Mapping[int, str] | None = None,
) -> Placement:
    """Join samples of one machine, in time order, with the ranks of one job on it.

    neighbours: processes that do exist on this machine and are no rank of this job, by pid, with
    a note who they are; a pid that is neither a rank's nor a neighbour's is a stranger.
    """
    known = neighbours or {}
    seen = {p.pid for sample in samples for gpu in sample.gpus for p in gpu.processes}
    by_pid = match(seen, ranks)
    gpus = tuple(
        _gpu_row(uuid, samples, by_pid, known)
        for uuid in dict.fromkeys(gpu.uuid for sample in samples for gpu in sample.gpus)
    )
    strangers = sorted(
        {p.pid for gpu in gpus for p in gpu.processes if p.rank is None and p.pid not in known}
    )
    pid_mismatch = bool(strangers) and not any(gpu.ranks for gpu in gpus)
    problems = [f"GPU {gpu.index}: {gpu.problem}" for gpu in gpus if gpu.problem]
    if pid_mismatch:
        problems.insert(0, PID_MISMATCH.format(pids=", ".join(map(str, strangers))))
    return Placement(_rank_rows(ranks, gpus), gpus, tuple(problems), pid_mismatch)


def _gpu_row(
    uuid: str,
    samples: Sequence[Snapshot],
    by_pid: Mapping[int, RankProcess],
    known: Mapping[int, str],
) -> GpuRow:
    seen = [(sample.time, gpu) for sample in samples for gpu in sample.gpus if gpu.uuid == uuid]
    last = seen[-1][1]
    problem = next((gpu.problem for _, gpu in reversed(seen) if gpu.problem), None)
    occupants = []
    for pid in dict.fromkeys(p.pid for _, gpu in seen for p in gpu.processes):
        here = [p for _, gpu in seen for p in gpu.processes if p.pid == pid]
        if not any(_holds(entry) for entry in here):
            continue
        process = by_pid.get(pid)
        told = [n for entry in here for n in (entry.bytes, entry.peak_bytes) if n is not None]
        occupants.append(
            Occupant(
                pid=process.pid if process else pid,
                rank=process.rank if process else None,
                peak_bytes=max(told, default=None),
                curve=_curve(pid, seen),
                note="" if process else known.get(pid, "no process of that pid is known here"),
            )
        )
    occupants.sort(key=lambda o: (o.rank is None, o.rank or 0, o.pid))
    return GpuRow(last.index, uuid, last.name, last.total_bytes, tuple(occupants), problem)


def _holds(entry: GpuProcess) -> bool:
    """Some drivers list every process on every GPU at 0 MiB: only memory counts as being there."""
    return entry.bytes != 0 or bool(entry.peak_bytes)


def _curve(pid: int, seen: Sequence[tuple[float, Gpu]]) -> tuple[tuple[float, int | None], ...]:
    """(time, bytes) at each change; a sample that could not be read changes nothing."""
    curve: list[tuple[float, int | None]] = []
    for time, gpu in seen:
        held = next((p.bytes for p in gpu.processes if p.pid == pid), 0)
        absent = all(p.pid != pid for p in gpu.processes)
        if absent and (gpu.problem or not curve):
            continue
        if not curve or curve[-1][1] != held:
            curve.append((time, held))
    return tuple(curve)


def _rank_rows(ranks: Sequence[RankProcess], gpus: Sequence[GpuRow]) -> tuple[RankRow, ...]:
    index = {_bare(gpu.uuid): gpu.index for gpu in gpus}
    rows: dict[int, RankRow] = {}
    for process in ranks:
        if process.rank not in rows:
            rows[process.rank] = RankRow(
                rank=process.rank,
                local_rank=process.local_rank,
                pid=process.pid,
                own=index.get(_bare(process.own)) if process.own else None,
                devices=tuple(gpu.index for gpu in gpus if process.rank in gpu.ranks),
                visible=process.visible,
            )
    return tuple(rows[rank] for rank in sorted(rows))


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")
