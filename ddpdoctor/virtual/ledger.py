"""Which process holds how much on which virtual GPU: one small file a process and device.

Processes write, anyone reads; the files of ended processes stay, since their peak is evidence.
Needs no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddpdoctor.virtual.devices import Device

_DEVICES = "devices.json"


@dataclass(frozen=True)
class Holding:
    """What a process holds on one device.

    device_index: the machine's own, before CUDA_VISIBLE_DEVICES. bytes: the context and the
    reserved memory, 0 once the process has ended. opened_at: seconds since the epoch. opened_by:
    "file:line" of the innermost user frame that opened the context, where there was one.
    """

    pid: int
    device_index: int
    uuid: str
    bytes: int
    peak_bytes: int
    opened_at: float
    opened_by: str | None


def create(folder: str | Path, devices: Iterable[Device]) -> None:
    """Makes the folder and writes the machine's devices there."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    _write(Path(folder) / _DEVICES, [asdict(device) for device in devices])


def devices(folder: str | Path) -> list[Device]:
    """The machine's devices. Raises FileNotFoundError where the folder is no ledger."""
    return [Device(**entry) for entry in json.loads((Path(folder) / _DEVICES).read_text("utf-8"))]


def read(folder: str | Path) -> list[Holding]:
    """What every process holds or held, by device and then by the time its context was opened."""
    holdings = []
    for file in Path(folder).glob("*-*.json"):
        entry: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if process_started(entry["pid"]) != entry.pop("process_started"):
            entry["bytes"] = 0
        holdings.append(Holding(**entry))
    return sorted(holdings, key=lambda held: (held.device_index, held.opened_at, held.pid))


def write(folder: str | Path, holding: Holding) -> None:
    """Replaces what the ledger says of this process and device."""
    entry = asdict(holding) | {"process_started": process_started(holding.pid)}
    _write(Path(folder) / f"{holding.pid}-{holding.device_index}.json", entry)


def process_started(pid: int) -> int | None:
    """The process's start in clock ticks since boot (so that a reused pid is told apart); None if
    it has ended.

    A zombie has ended: its GPU memory is free although its parent has not collected it yet.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def _write(file: Path, content: object) -> None:
    # Readers must never see half a file, so it is renamed into place.
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content), "utf-8")
    temporary.replace(file)
