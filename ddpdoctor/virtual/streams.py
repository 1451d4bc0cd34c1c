"""Streams and events: work on a virtual GPU is done when the call returns, so both only keep order
and time.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import torch

from ddpdoctor.virtual.process import Process

_CUDA = 1  # c10::DeviceType::CUDA
_ids = itertools.count(1)


class StreamBase:
    """Takes the place of torch._C._CudaStreamBase, below torch's own Stream class."""

    process: Process

    stream_id: int
    device_index: int
    device_type: int
    priority: int

    def __new__(
        cls,
        device: Any = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int = _CUDA,
        stream_ptr: int | None = None,
    ) -> StreamBase:
        stream = super().__new__(cls)
        if device is not None and device_index is None:
            device_index = torch.device(device).index
        stream.device_index = cls.process.current if device_index is None else device_index
        if stream_id is None:
            cls.process.memory(stream.device_index)
            stream_id = next(_ids) if stream_ptr is None else stream_ptr
        stream.stream_id = stream_id
        stream.device_type = device_type
        # cudaDeviceGetStreamPriorityRange: 0 is the lowest, -5 the highest on current devices;
        # torch maps what lies outside to the nearest.
        stream.priority = max(-5, min(0, priority))
        return stream

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    native_handle = cuda_stream

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (0, -5)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        self.process.memory(self.device_index)

    def record_event(self, event: Any = None) -> Any:
        event = torch.cuda.Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        self.wait_event(stream.record_event())

    def __enter__(self) -> StreamBase:
        self._previous = torch.cuda.current_stream()
        torch.cuda.set_stream(self)  # type: ignore[arg-type]
        return self

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_stream(self._previous)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StreamBase)
            and self.stream_id == other.stream_id
            and self.device_index == other.device_index
        )

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device_index))


class EventBase:
    """Takes the place of torch._C._CudaEventBase, below torch's own Event class."""

    process: Process

    def __new__(
        cls,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> EventBase:
        event = super().__new__(cls)
        event._timed = enable_timing
        event._at = None
        event._device_index = None
        return event

    _timed: bool
    _at: float | None
    _device_index: int | None

    @property
    def cuda_event(self) -> int:
        return 0 if self._at is None else id(self)

    event_id = cuda_event

    @property
    def device(self) -> torch.device | None:
        return None if self._device_index is None else torch.device("cuda", self._device_index)

    def record(self, stream: Any = None) -> None:
        index = self.process.current if stream is None else stream.device_index
        if self._device_index not in (None, index):
            raise RuntimeError(
                f"Event device {self._device_index} does not match recording stream's device "
                f"{index}."
            )
        self.process.memory(index)
        self._device_index = index
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: EventBase) -> float:
        # c10/cuda/impl: both events must time, and both must have been recorded.
        if not (self._timed and end._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._at - self._at) * 1000

    def ipc_handle(self) -> bytes:
        raise RuntimeError("CUDA IPC event handles cannot be simulated on virtual GPUs")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> EventBase:
        raise RuntimeError("CUDA IPC event handles cannot be simulated on virtual GPUs")


class CurrentStreams(threading.local):
    """Each thread's current stream on each device: (stream id, device index, device type)."""

    def __init__(self) -> None:
        self._streams: dict[int, tuple[int, int, int]] = {}

    def get(self, index: int) -> tuple[int, int, int]:
        return self._streams.get(index, (0, index, _CUDA))

    def set(self, stream_id: int, index: int) -> None:
        self._streams[index] = (stream_id, index, _CUDA)


def default_stream(index: int) -> tuple[int, int, int]:
    return (0, index, _CUDA)
