"""What a GPU source answers: the GPUs of this machine, and the processes that hold memory there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class GpuProcess:
    """A process with a context on a GPU.

    pid: as the source reports it (NVML in a container: the host's). bytes: device memory it holds,
    or None where the driver does not tell (WSL, WDDM), which is unknown and not zero. peak_bytes:
    the most it has held so far, where the source knows (the virtual GPUs' ledger does, which also
    keeps ended processes, at 0 bytes).
    """

    pid: int
    bytes: int | None
    peak_bytes: int | None = None


@dataclass(frozen=True)
class MigInstance:
    """The place of a MIG instance on its GPU; older drivers name it so in CUDA_VISIBLE_DEVICES."""

    parent_uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True)
class Gpu:
    """One GPU (or MIG instance) at one moment.

    index: the source's own index, which for NVML is not CUDA's: join on uuid. Where MIG is on, each
    instance counts as a GPU of its own, in the place of the GPU it is part of. name: "" where not
    known. total_bytes and used_bytes: device memory, None where not known. problem: what could
    not be read, in one line, or None.
    """

    index: int
    uuid: str
    name: str
    total_bytes: int | None
    used_bytes: int | None
    processes: tuple[GpuProcess, ...]
    problem: str | None = None
    mig: MigInstance | None = None


@dataclass(frozen=True)
class Snapshot:
    """Every GPU at one moment; time in seconds since the epoch."""

    time: float
    gpus: tuple[Gpu, ...]


class GpuSource(Protocol):
    """Something that can be asked who is on which GPU."""

    kind: str  # "nvml" or "virtual", for the report

    def snapshot(self) -> Snapshot: ...

    def close(self) -> None: ...
