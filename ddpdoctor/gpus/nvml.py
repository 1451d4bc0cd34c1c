"""The GPUs of this machine through NVML; every quirk of it is handled here and in nvml_*.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ddpdoctor.gpus import nvml_binding
from ddpdoctor.gpus.nvml_processes import processes
from ddpdoctor.gpus.snapshot import Gpu, MigInstance, Snapshot


class NvmlSource:
    """NVML as a GpuSource.

    Opening it raises NoGpu or DdpdoctorError (see nvml_binding.start). Once it is open nothing
    raises: what cannot be read of a GPU stands in its problem, and the other GPUs go on.
    """

    kind = "nvml"

    def __init__(self) -> None:
        self._pynvml = nvml_binding.start()
        self._count: int = self._pynvml.nvmlDeviceGetCount()
        self._seen: dict[int, list[Gpu]] = {}

    def snapshot(self) -> Snapshot:
        gpus: list[Gpu] = []
        for number in range(self._count):
            for gpu in self._at(number):
                gpus.append(replace(gpu, index=len(gpus)))
        return Snapshot(time.time(), tuple(gpus))

    def close(self) -> None:
        self._pynvml.nvmlShutdown()

    def _at(self, number: int) -> list[Gpu]:
        """The GPU at NVML's index or its MIG instances; as last seen, if it cannot be asked."""
        nvml = self._pynvml
        seen = self._seen.get(number, [Gpu(number, f"unknown-{number}", "", None, None, ())])
        try:
            # Asked anew each time: a handle from before a reset names a GPU that is lost.
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            if self._mig_is_on(handle):
                gpus = list(self._instances(handle)) or [
                    replace(self._read(handle, seen[0]), problem="MIG is on, but has no instance")
                ]
            else:
                gpus = [self._read(handle, seen[0])]
        except nvml.NVMLError as error:
            problem = f"NVML says '{error}'"
            return [replace(gpu, used_bytes=None, processes=(), problem=problem) for gpu in seen]
        self._seen[number] = gpus
        return gpus

    def _mig_is_on(self, handle: Any) -> bool:
        nvml = self._pynvml
        try:
            current, _pending = nvml.nvmlDeviceGetMigMode(handle)
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
            return False  # cards before Ampere, drivers before 450
        return bool(current)

    def _instances(self, handle: Any) -> Iterator[Gpu]:
        """CUDA cannot use a GPU with MIG on as a whole, so its instances take its place."""
        nvml = self._pynvml
        parent = nvml.nvmlDeviceGetUUID(handle)
        for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
            except nvml.NVMLError_NotFound:
                continue  # an empty slot; slots are not filled in order
            mig = MigInstance(
                parent,
                nvml.nvmlDeviceGetGpuInstanceId(instance),
                nvml.nvmlDeviceGetComputeInstanceId(instance),
            )
            unseen = Gpu(slot, f"unknown-{parent}-{slot}", "", None, None, ())
            yield replace(self._read(instance, unseen), mig=mig)

    def _read(self, handle: Any, seen: Gpu) -> Gpu:
        """What cannot be read now is taken from seen, if it cannot have changed."""
        nvml = self._pynvml
        uuid, no_uuid = self._ask(nvml.nvmlDeviceGetUUID, handle, "its UUID")
        name, no_name = self._ask(nvml.nvmlDeviceGetName, handle, "its name")
        memory, no_memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle, "its memory")
        found, no_processes = processes(nvml, handle)
        return Gpu(
            index=0,
            uuid=uuid or seen.uuid,
            name=name or seen.name,
            total_bytes=memory.total if memory else None,
            used_bytes=memory.used if memory else None,
            processes=found,
            problem=no_processes or no_uuid or no_name or no_memory,
        )

    def _ask(
        self, function: Callable[[Any], Any], handle: Any, what: str
    ) -> tuple[Any, str | None]:
        """The answer and None, or None and the problem in one line."""
        nvml = self._pynvml
        try:
            return function(handle), None
        except nvml.NVMLError as error:
            # GPUs that share the machine's memory (GB10, Jetson) have none of their own to tell.
            lacks = what == "its memory" and isinstance(error, nvml.NVMLError_NotSupported)
            return None, None if lacks else f"NVML says '{error}' when asked for {what}"
