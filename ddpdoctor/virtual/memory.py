"""The memory of one virtual GPU as this process uses it: counters, and the end of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from ddpdoctor.virtual import ledger
from ddpdoctor.virtual.devices import Device

BAD_FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method"
)

# The CUDA caching allocator hands out multiples of 512 bytes, and takes memory from the driver in
# segments of 2 MiB for small and 20 MiB for larger requests (c10/core/AllocatorConfig.h).
_ROUNDING = 512
_SMALL_REQUEST = 1 << 20
_SMALL_SEGMENT = 2 << 20
_LARGE_SEGMENT = 20 << 20

# A CUDA context with torch's kernels loaded takes 300 to 600 MB of the device; on a small virtual
# GPU it takes a share, so that tests with a few MiB still have room.
_CONTEXT = 448 << 20


class DeviceMemory:
    """Bytes allocated and reserved on one device, and what the ledger is told of them.

    index: the device as this process counts. device: the machine's. opened_at and opened_by: as in
    ledger.Holding.
    """

    def __init__(
        self,
        index: int,
        device: Device,
        folder: str | None,
        opened_at: float,
        opened_by: str | None,
    ) -> None:
        self.index = index
        self.device = device
        self.context_bytes = min(_CONTEXT, device.total_bytes // 64)
        self.allocated = self.allocated_peak = self.freed = 0
        self.allocations = self.frees = 0
        self.reserved = self.reserved_peak = 0
        self.ooms = self.retries = 0
        self.fraction = 1.0
        self._folder = folder
        self._opened = (opened_at, opened_by)
        self._lifetime_peak = 0
        self._lock = threading.RLock()
        self._publish()

    def take(self, size: int) -> None:
        """Counts an allocation of size bytes. Raises OutOfMemoryError where it does not fit."""
        rounded = (size + _ROUNDING - 1) & -_ROUNDING
        # A lock would cost as much as the counting; threads that allocate at once are rare enough
        # for the statistics, and _reserve holds the lock.
        allocated = self.allocated + rounded
        if allocated > self.reserved:
            self._reserve(size, rounded)
        self.allocated = allocated
        self.allocations += 1
        if allocated > self.allocated_peak:
            self.allocated_peak = allocated

    def give(self, size: int) -> None:
        """Counts the end of an allocation of size bytes."""
        rounded = (size + _ROUNDING - 1) & -_ROUNDING
        self.allocated -= rounded
        self.freed += rounded
        self.allocations -= 1
        self.frees += 1

    def check(self, size: int) -> None:
        """Raises torch.OutOfMemoryError where size more bytes would not fit."""
        if self.allocated + size > self.reserved:
            before = self.reserved
            self._reserve(size, size)
            self.reserved = before

    def lose(self) -> None:
        """In a forked child: nothing can be allocated, and nothing is told to the ledger."""
        self.take = _refuse_after_fork  # type: ignore[method-assign]
        self._folder = None

    def empty_cache(self) -> None:
        """Gives what is reserved and not allocated back to the device."""
        with self._lock:
            kept = -(-self.allocated // _SMALL_SEGMENT) * _SMALL_SEGMENT
            if kept < self.reserved:
                self.reserved = kept
                self._publish()

    def reset_peaks(self) -> None:
        self.allocated_peak = self.allocated
        self.reserved_peak = self.reserved

    def reset_totals(self) -> None:
        self.freed = self.frees = 0
        self.ooms = self.retries = 0

    def free_bytes(self) -> int:
        """What the whole device has left, every process counted (cudaMemGetInfo's first figure)."""
        return max(0, self.device.total_bytes - sum(size for _, size in self._processes()))

    def _reserve(self, size: int, rounded: int) -> None:
        with self._lock:
            segment = _SMALL_SEGMENT if rounded <= _SMALL_REQUEST else _LARGE_SEGMENT
            needed = self.allocated + rounded
            grown = self.reserved + -(-(needed - self.reserved) // segment) * segment
            total = self.device.total_bytes
            for reserved in (grown, needed):
                # Segments that do not fit are retried at the size asked for, as the allocator does.
                others = self.free_bytes() + self.reserved
                if reserved <= others and reserved <= total * self.fraction:
                    self.reserved = reserved
                    self.reserved_peak = max(self.reserved_peak, reserved)
                    self._publish()
                    return
            self.retries += 1
            self.ooms += 1
            raise self._out_of_memory(size)

    def _out_of_memory(self, size: int) -> Exception:
        import torch

        # The text of CUDACachingAllocator.cpp, torch 2.4 and newer.
        processes = "".join(
            f"Process {pid} has {_gib(held)} memory in use. "
            for pid, held in self._processes()
            if pid != os.getpid()
        )
        own = self.context_bytes + self.reserved
        return torch.cuda.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {_gib(size)}. GPU {self.index} has a total "
            f"capacity of {_gib(self.device.total_bytes)} of which {_gib(self.free_bytes())} is "
            f"free. {processes}Including non-PyTorch memory, this process has {_gib(own)} memory "
            f"in use. Of the allocated memory {_gib(self.allocated)} is allocated by PyTorch, and "
            f"{_gib(self.reserved - self.allocated)} is reserved by PyTorch but unallocated. If "
            "reserved but unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
            "documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )

    def _processes(self) -> Iterator[tuple[int, int]]:
        yield os.getpid(), self.context_bytes + self.reserved
        if self._folder is not None:
            for held in ledger.read(self._folder):
                if held.uuid == self.device.uuid and held.bytes and held.pid != os.getpid():
                    yield held.pid, held.bytes

    def _publish(self) -> None:
        held = self.context_bytes + self.reserved
        self._lifetime_peak = max(self._lifetime_peak, held)
        if self._folder is not None:
            opened_at, opened_by = self._opened
            ledger.write(
                self._folder,
                ledger.Holding(
                    os.getpid(),
                    self.device.index,
                    self.device.uuid,
                    held,
                    self._lifetime_peak,
                    opened_at,
                    opened_by,
                ),
            )


def _refuse_after_fork(size: int) -> None:
    raise RuntimeError(BAD_FORK)


def _gib(size: int) -> str:
    """Sizes as the allocator's own messages print them (c10/cuda/CUDACachingAllocator.cpp,
    format_size).
    """
    if size <= 1024:
        return f"{size} bytes"
    for unit, shift in (("KiB", 10), ("MiB", 20)):
        if size <= 1 << (shift + 10):
            return f"{size / (1 << shift):.2f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"
