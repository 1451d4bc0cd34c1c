"""How far a process came, in shared memory, so that it can be read after a kill -9.

process-PID.state in the run folder holds one packed structure that the process updates in place.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_COUNTS = struct.Struct("<QQQ")  # steps, collectives, work (forwards of DDP, batches)
_STEP_TIMES = struct.Struct("<dd")  # of the first and of the last step, since the epoch
_WAITING = struct.Struct("<?Q96s96s")  # inside now?, sequence, operation, group
_STEP_TIMES_AT = _COUNTS.size
_WAITING_AT = _STEP_TIMES_AT + _STEP_TIMES.size
_SIZE = _WAITING_AT + _WAITING.size


@dataclass(frozen=True)
class Progress:
    """work counts DDP forwards and batches, and means nothing but "it moves". The operation is
    the last collective entered; inside: it has not returned.
    """

    steps: int
    collectives: int
    work: int
    first_step: float
    last_step: float
    inside: bool
    sequence: int
    operation: str
    group: str

    @property
    def steps_per_second(self) -> float | None:
        seconds = self.last_step - self.first_step
        return (self.steps - 1) / seconds if seconds > 0 else None


class ProgressWriter:
    """The writing side. A forked child must leave its parent's file at once."""

    def __init__(self, path: str) -> None:
        self.leave_file()
        self.move_to(path)

    def leave_file(self) -> None:
        """Count from zero, for nobody to see."""
        self._memory = mmap.mmap(-1, _SIZE)
        self._counts = [0, 0, 0]
        self._first_step = 0.0

    def move_to(self, path: str) -> None:
        """Count on in that file. Raises OSError where the disk is full."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Reserved now: a disk that fills up later would turn a write into SIGBUS.
            os.posix_fallocate(file, 0, _SIZE)
            memory = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        memory[:] = self._memory[:]
        self._memory = memory

    def step(self) -> None:
        now = time.time()
        self._first_step = self._first_step or now
        self._count(0)
        _STEP_TIMES.pack_into(self._memory, _STEP_TIMES_AT, self._first_step, now)

    def work(self) -> None:
        self._count(2)

    def enter(self, operation: str, sequence: int, group: str) -> None:
        self._count(1)
        _WAITING.pack_into(
            self._memory, _WAITING_AT, True, sequence, operation.encode(), group.encode()
        )

    def leave(self) -> None:
        self._memory[_WAITING_AT] = 0

    def _count(self, index: int) -> None:
        self._counts[index] += 1
        _COUNTS.pack_into(self._memory, 0, *self._counts)


def read_progress(folder: Path, pid: int) -> Progress | None:
    """The process's last state, or None where it never wrote one."""
    try:
        packed = (folder / f"process-{pid}.state").read_bytes()
    except FileNotFoundError:
        return None
    if len(packed) < _SIZE:
        return None
    steps, collectives, work = _COUNTS.unpack_from(packed)
    first, last = _STEP_TIMES.unpack_from(packed, _STEP_TIMES_AT)
    inside, sequence, operation, group = _WAITING.unpack_from(packed, _WAITING_AT)
    return Progress(
        steps, collectives, work, first, last, inside, sequence, _text(operation), _text(group)
    )


def _text(packed: bytes) -> str:
    return packed.rstrip(b"\0").decode("utf-8", "replace")
