"""Which processes are ranks, and of which job: from their environments and their parents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.gpus.placement import RankProcess
from ddpdoctor.gpus.snapshot import Gpu
from ddpdoctor.gpus.visible import visible_devices
from ddpdoctor.ps.processes import Process

# (rank, local rank, world size) as torchrun and its kind, Open MPI and SLURM say it.
_VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
# Two processes with the same values of all of these belong to the same job. Only torchrun sets the
# first.
_SAME_JOB = (
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_MCA_ess_base_jobid",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)


@dataclass(frozen=True)
class Job:
    """The ranks of one job that run on this machine, each rank's own process first.

    launcher: the process that started them, None where it cannot be seen. command: of the first
    rank. notes: what about their visible devices is a guess.
    """

    launcher: Process | None
    command: tuple[str, ...]
    world_size: int
    ranks: tuple[RankProcess, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Member:
    process: Process
    rank: int
    local_rank: int
    world_size: int
    key: tuple[str | None, ...]


def jobs(
    processes: Mapping[int, Process], holders: Collection[int], gpus: Sequence[Gpu]
) -> list[Job]:
    """The jobs among those processes, in the order of their first pids.

    holders: pids that hold GPU memory. A shell, an outer launcher or a SLURM step that trains
    nothing may have a rank in its environment too. A job is what torchrun started (its ranks may
    hang before they reach a GPU), or where some process holds GPU memory.
    """
    by_key: dict[tuple[str | None, ...], list[_Member]] = {}
    for pid in sorted(processes):
        if member := _member(processes[pid]):
            by_key.setdefault(member.key, []).append(member)
    return [
        _job(members, holders, processes, gpus)
        for key, members in by_key.items()
        if key[0] is not None or any(member.process.pid in holders for member in members)
    ]


def why_no_rank(process: Process, processes: Mapping[int, Process]) -> str:
    """Who a process on a GPU is that is no rank, and why none is known for it."""
    parent = processes.get(process.parent)
    started = f", started by torchrun (pid {parent.pid})" if parent and parent.is_torchrun else ""
    if process.environ is None:
        why = "its environment may not be read, so its rank is unknown; root can see it"
    else:
        why = "no rank in its environment"
    return f"{process.who}{started}: {why}"


def _member(process: Process) -> _Member | None:
    environ = process.environ or {}
    for rank, local_rank, world_size in _VARIABLES:
        # Launched by hand, a rank on one machine may do without LOCAL_RANK.
        told = [environ.get(name, "") for name in (rank, local_rank, world_size)]
        told[1] = told[1] or told[0]
        if all(number.isdecimal() for number in told):
            key = tuple(environ.get(name) for name in _SAME_JOB)
            return _Member(process, int(told[0]), int(told[1]), int(told[2]), key)
    return None


def _job(
    members: Sequence[_Member],
    holders: Collection[int],
    processes: Mapping[int, Process],
    gpus: Sequence[Gpu],
) -> Job:
    pids = {member.process.pid for member in members}

    def order(member: _Member) -> tuple[int, bool, int]:
        """A rank's own process is on the GPU, and is the parent of its workers."""
        depth = sum(above.pid in pids for above in _above(member.process, processes))
        return member.rank, member.process.pid not in holders, depth

    ordered = sorted(members, key=order)
    first = ordered[0].process
    outside = (above for above in _above(first, processes) if above.pid not in pids)
    ranks, notes = [], []
    for member in ordered:
        visible, note = _visible(member.process, gpus)
        ranks.append(
            RankProcess(
                member.rank, member.local_rank, member.process.pid, member.process.nspids, visible
            )
        )
        notes += [note] if note else []
    return Job(
        launcher=next(outside, None),
        command=first.command,
        world_size=ordered[0].world_size,
        ranks=tuple(ranks),
        notes=tuple(dict.fromkeys(notes)),
    )


def _above(process: Process, processes: Mapping[int, Process]) -> Iterator[Process]:
    """Its parent, the parent's parent, and so on as far as they are seen."""
    while parent := processes.get(process.parent):
        yield parent
        process = parent


def _visible(process: Process, gpus: Sequence[Gpu]) -> tuple[tuple[str, ...] | None, str | None]:
    if len(process.nspids) > 1:
        # A container may be given some of the GPUs, which are numbered anew inside.
        return None, (
            "the ranks run in a container, so which GPU is whose own cannot be told from here"
        )
    devices = visible_devices(process.environ or {}, gpus)
    return devices.uuids, devices.note
