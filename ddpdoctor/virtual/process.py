"""What CUDA keeps for one process: which devices it sees, its contexts, each thread's current
device.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from ddpdoctor.virtual import ledger, observers
from ddpdoctor.virtual.devices import Device, Machine, visible_devices
from ddpdoctor.virtual.memory import BAD_FORK, DeviceMemory
from ddpdoctor.virtual.user_files import is_user_file

INVALID_DEVICE = (
    "CUDA error: invalid device ordinal\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


class Process:
    """The virtual CUDA driver's state in this process."""

    def __init__(self, machine: Machine, start: Callable[[], object]) -> None:
        """start: torch.cuda's own, which calls cu_init and then what was put off until now."""
        self.machine = machine
        self.start = start
        self.memories: list[DeviceMemory | None] = []
        self.initialized = False
        self._devices: tuple[Device, ...] = ()
        self._local = threading.local()
        self._lock = threading.RLock()
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)
        if machine.ledger is not None and not os.path.exists(machine.ledger):
            ledger.create(machine.ledger, machine.devices())

    def devices(self) -> tuple[Device, ...]:
        """The devices this process sees. CUDA reads the mask once, at cuInit; until then it may
        change.
        """
        if not self.initialized:
            return visible_devices(self.machine)
        return self._devices

    def initialize(self) -> None:
        """Starts CUDA where it has not started. Raises RuntimeError in a forked child."""
        if self.initialized:
            self.check_fork()
        else:
            self.start()

    def cu_init(self) -> None:
        """cuInit: fixes the visible devices. Raises RuntimeError where there are none."""
        if self.initialized:
            return
        devices = visible_devices(self.machine)
        if not devices:
            # c10/cuda/CUDAFunctions.cpp, device_count_ensure_non_zero
            raise RuntimeError("No CUDA GPUs are available")
        self._devices = devices
        self.memories = [None] * len(devices)
        self.initialized = True

    def check_fork(self) -> None:
        if self.in_bad_fork():
            raise RuntimeError(BAD_FORK)

    def in_bad_fork(self) -> bool:
        return self._forked

    def _after_fork(self) -> None:
        """A CUDA context does not survive a fork: what the parent opened is unusable here."""
        if self.initialized:
            self._forked = True
            for memory in self.memories:
                if memory is not None:
                    memory.lose()

    @property
    def current(self) -> int:
        """The current device of this thread; every thread starts at 0, as in CUDA."""
        return getattr(self._local, "current", 0)

    @current.setter
    def current(self, index: int) -> None:
        self.initialize()
        self.check_index(index)
        self._local.current = index

    def check_index(self, index: int) -> None:
        if not 0 <= index < len(self._devices):
            import torch

            error = getattr(torch, "AcceleratorError", RuntimeError)  # 2.8 and newer
            raise error(INVALID_DEVICE)

    def memory(self, index: int) -> DeviceMemory:
        """The device's memory, its context opened where this is the first use."""
        if index < len(self.memories):
            opened = self.memories[index]
            if opened is not None and not self._forked:
                return opened
        self.initialize()
        self.check_index(index)
        with self._lock:
            opened = self.memories[index]
            if opened is None:
                opened = DeviceMemory(
                    index, self._devices[index], self.machine.ledger, time.time(), _user_line()
                )
                self.memories[index] = opened
                for callback in observers.context_callbacks:
                    callback(index)
            return opened

    def has_context(self, index: int) -> bool:
        return index < len(self.memories) and self.memories[index] is not None


def _user_line() -> str | None:
    """ "file:line" of the innermost frame of the user's own code, None without any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{os.path.abspath(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None
