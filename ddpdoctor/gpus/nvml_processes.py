"""The processes on one GPU as NVML lists them, whatever record its driver writes."""

from __future__ import annotations

import ctypes
import struct
from types import ModuleType
from typing import Any

from ddpdoctor.gpus.snapshot import GpuProcess

# A process may have a compute context, a graphics context or both, and clients of the
# multi-process service are in a list of their own.
_LISTS = {
    "nvmlDeviceGetComputeRunningProcesses": "compute processes",
    "nvmlDeviceGetGraphicsRunningProcesses": "graphics processes",
    "nvmlDeviceGetMPSComputeRunningProcesses": "MPS processes",
}
_SUCCESS, _INSUFFICIENT_SIZE = 0, 7
# The value NVML writes where Windows and not the driver manages the memory (WDDM, WSL).
_NOT_AVAILABLE = 2**64 - 1
# pid at 0 and usedGpuMemory at 8 are the same in all of them: first API, _v2 and most _v3, and _v3
# of some 535 drivers, which write usedGpuCcProtectedMemory too (nvitop#79, go-nvml#75).
_RECORD_SIZES = (16, 24, 32)
_UNWRITTEN = 0xA5


def processes(pynvml: ModuleType, handle: Any) -> tuple[tuple[GpuProcess, ...], str | None]:
    """Those that hold memory there, and what could not be read (one line or None).

    A process in several lists is reported once, with the largest number: each list gives all the
    memory of the process.
    """
    held: dict[int, int | None] = {}
    problem = None
    for symbol, words in _LISTS.items():
        try:
            listed = _listed(pynvml, symbol, handle)
        except pynvml.NVMLError as error:
            # Data-centre cards without a display have no graphics list, drivers before 470 no MPS
            # list; DDP's processes are in the compute list.
            optional = words != "compute processes" and isinstance(
                error, (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
            )
            if not optional and problem is None:
                problem = f"NVML says '{error}' when asked for {words}"
            continue
        for pid, size in listed:
            # Some drivers list every process on every GPU at 0 bytes: it is not there.
            if size != 0:
                held[pid] = max((s for s in (held.get(pid), size) if s is not None), default=None)
    return tuple(GpuProcess(pid, size) for pid, size in sorted(held.items())), problem


def _listed(pynvml: ModuleType, symbol: str, handle: Any) -> list[tuple[int, int | None]]:
    """(pid, bytes or None) in the driver's order.

    The binding's own function assumes records of 24 bytes, and reads garbage pids where the driver
    writes others. Here the buffer is filled beforehand, and how far it was overwritten tells the
    size of a record, independent of what a driver's version promises.
    """
    function = _newest(pynvml, symbol)
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    while code == _INSUFFICIENT_SIZE:
        # Room for processes that start between the two calls; with more of them, ask again.
        count.value = 2 * count.value + 5
        buffer = ctypes.create_string_buffer(max(_RECORD_SIZES) * count.value)
        ctypes.memset(buffer, _UNWRITTEN, len(buffer))
        code = function(handle, ctypes.byref(count), buffer)
        if code == _SUCCESS:
            return _records(buffer.raw, count.value)
    if code != _SUCCESS:
        raise pynvml.NVMLError(code)
    return []


def _newest(pynvml: ModuleType, symbol: str) -> Any:
    for version in ("_v3", "_v2"):
        try:
            return pynvml._nvmlGetFunctionPointer(symbol + version)
        except pynvml.NVMLError_FunctionNotFound:
            continue  # drivers before 510 have no _v3, before 455 no _v2
    return pynvml._nvmlGetFunctionPointer(symbol)


def _records(raw: bytes, count: int) -> list[tuple[int, int | None]]:
    if count == 0:
        return []
    written = len(raw.rstrip(bytes([_UNWRITTEN])))
    # Rounded up: the last field of the last record may have been left alone.
    size = -(-written // (8 * count)) * 8
    if size not in _RECORD_SIZES:
        size = 24
    found = []
    for start in range(0, size * count, size):
        pid, memory = struct.unpack_from("=I4xQ", raw, start)
        found.append((pid, None if memory == _NOT_AVAILABLE else memory))
    return found
