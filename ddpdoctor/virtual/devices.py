"""The virtual GPUs of a machine, and which of them CUDA_VISIBLE_DEVICES shows to a process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

COUNT_VARIABLE = "DDPDOCTOR_VIRTUAL_GPUS"
MEMORY_VARIABLE = "DDPDOCTOR_VIRTUAL_MEMORY"
LEDGER_VARIABLE = "DDPDOCTOR_LEDGER"
HOOKS_VARIABLE = "DDPDOCTOR_VIRTUAL_HOOKS"

DEFAULT_MEMORY = 80 << 30
NAME = "Virtual GPU"
# The most devices a CUDA build of torch can hold (C10_COMPILE_TIME_MAX_GPUS).
MAX_COUNT = 120

_UNITS = {"": 1, "B": 1, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class Device:
    """One GPU of the machine. index: its place on the machine, before any mask."""

    index: int
    uuid: str
    name: str
    total_bytes: int


@dataclass(frozen=True)
class Machine:
    """count GPUs of memory_bytes each, and the folder where processes write what they hold."""

    count: int
    memory_bytes: int = DEFAULT_MEMORY
    ledger: str | None = None

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> Machine | None:
        """The machine a parent asked for (see environment.py); None where it asked for none.

        Raises ValueError where a variable does not hold a number that makes sense.
        """
        count = int(environ.get(COUNT_VARIABLE) or 0)
        if count == 0:
            return None
        if not 0 < count <= MAX_COUNT:
            raise ValueError(f"{COUNT_VARIABLE} must be between 0 and {MAX_COUNT}, not {count}")
        memory = int(environ.get(MEMORY_VARIABLE) or DEFAULT_MEMORY)
        return Machine(count, memory, environ.get(LEDGER_VARIABLE) or None)

    def devices(self) -> tuple[Device, ...]:
        return tuple(Device(i, uuid(i), NAME, self.memory_bytes) for i in range(self.count))


def uuid(index: int) -> str:
    """The UUID of the machine's GPU of that index: fixed, and of the form NVML prints."""
    return f"GPU-76697274-7561-6c00-0000-{index:012x}"


def parse_memory(size: int | str) -> int:
    """Bytes from 1073741824, "1GiB", "1 GB" or "512M" (powers of two in each case).

    Raises ValueError for anything else.
    """
    if isinstance(size, int):
        value = size
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE)
        if not match:
            raise ValueError(f"{size!r} is no memory size; write it as in '80GiB'")
        value = int(float(match[1]) * (1 << _UNITS[match[2].upper()] if match[2] else 1))
    if value <= 0:
        raise ValueError(f"a GPU needs memory; {size!r} leaves it none")
    return value


def visible_devices(machine: Machine, mask: str | None = None) -> tuple[Device, ...]:
    """The devices a process sees, in its own order: mask, or else CUDA_VISIBLE_DEVICES, as CUDA
    reads it.

    An entry that names no device ends the list, a device named twice empties it, numbers are read
    as strtoul does ("1gpu" is 1), UUIDs may be shortened as long as they stay unambiguous. (CUDA
    C++ programming guide, "CUDA environment variables"; the same rules as torch.cuda's own parser.)
    """
    devices = machine.devices()
    mask = os.environ.get("CUDA_VISIBLE_DEVICES") if mask is None else mask
    if mask is None:
        return devices
    seen: list[Device] = []
    for entry in mask.split(","):
        device = _device_named(entry.strip(), devices)
        if device is None:
            break
        if device in seen:
            return ()
        seen.append(device)
    return tuple(seen)


def _device_named(entry: str, devices: tuple[Device, ...]) -> Device | None:
    if entry.startswith("GPU-"):
        named = [device for device in devices if device.uuid.startswith(entry)]
        return named[0] if len(named) == 1 else None
    number = re.match(r"\+?(\d+)", entry)
    if number is None or int(number[1]) >= len(devices):
        return None
    return devices[int(number[1])]
