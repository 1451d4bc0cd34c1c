"""The virtual GPUs of a run as a GpuSource: reads their ledger as NVML is read."""

from __future__ import annotations

import time
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.snapshot import Gpu, GpuProcess, Snapshot
from ddpdoctor.virtual import ledger


class VirtualSource:
    """The ledger in that folder. Raises DdpdoctorError where the folder is no ledger."""

    kind = "virtual"

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            self._devices = ledger.devices(self._folder)
        except (OSError, ValueError, TypeError) as error:
            raise DdpdoctorError(f"{folder} is no ledger of virtual GPUs: {error}") from error

    def snapshot(self) -> Snapshot:
        """Ended processes stay, at 0 bytes: what they held at most is evidence."""
        holdings = ledger.read(self._folder)
        gpus = []
        for device in self._devices:
            here = [holding for holding in holdings if holding.device_index == device.index]
            gpus.append(
                Gpu(
                    index=device.index,
                    uuid=device.uuid,
                    name=device.name,
                    total_bytes=device.total_bytes,
                    used_bytes=sum(holding.bytes for holding in here),
                    processes=tuple(
                        GpuProcess(holding.pid, holding.bytes, holding.peak_bytes)
                        for holding in here
                    ),
                )
            )
        return Snapshot(time.time(), tuple(gpus))

    def close(self) -> None:
        """Nothing is held open."""
