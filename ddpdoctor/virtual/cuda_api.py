"""The C functions below torch.cuda and torch.accelerator, for virtual GPUs.

torch.cuda's Python code stays PyTorch's own, with its argument checks and texts; only what it calls
in torch._C is replaced.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

from ddpdoctor.virtual import streams
from ddpdoctor.virtual.memory import DeviceMemory
from ddpdoctor.virtual.patches import Patches
from ddpdoctor.virtual.process import Process
from ddpdoctor.virtual.properties import (
    ARCHITECTURES,
    CUDA_VERSION,
    CUDA_VERSION_NUMBER,
    CUDNN_VERSION,
    NCCL_VERSION,
    properties,
)


def install(process: Process, patches: Patches) -> None:
    driver = _Driver(process)
    for name in dir(driver):
        if name.startswith(("_cuda_", "_accelerator_")):
            patches.set(torch._C, name, getattr(driver, name))
    patches.set(torch._C, "_get_accelerator", driver._get_accelerator)
    patches.set(torch._C, "_has_cuda", True)
    patches.set(torch._C, "_cudart", _Runtime(process))
    patches.set(torch.version, "cuda", CUDA_VERSION)
    _install_module(process, driver, patches)
    _install_streams(process, patches)
    _install_backends(patches)


def _install_module(process: Process, driver: _Driver, patches: Patches) -> None:
    """What torch.cuda copied from torch._C when it was imported, and what it asks NVML."""
    cuda = torch.cuda
    patches.set(cuda, "_cudart", torch._C._cudart)  # type: ignore[attr-defined]
    patches.set(cuda, "_is_in_bad_fork", process.in_bad_fork)
    patches.set(cuda, "_exchange_device", driver._cuda_exchangeDevice)
    patches.set(cuda, "_maybe_exchange_device", driver._cuda_maybeExchangeDevice)
    patches.set(cuda, "_device_count_nvml", lambda: -1)
    patches.set(cuda, "_initialized", False)
    patches.set(cuda, "_cached_device_count", None)
    patches.set(cuda, "_queued_calls", [])
    patches.set(
        cuda, "_get_device_properties", lambda index: properties(process.devices()[int(index)])
    )
    patches.set(cuda, "_get_pynvml_handler", _refuse("NVML figures such as utilization"))
    patches.set(cuda, "list_gpu_processes", _refuse("NVML's list of processes"))
    patches.set(torch.cuda.nvtx, "_nvtx", _Nvtx())
    patches.set(torch.cuda.nccl, "version", lambda: NCCL_VERSION)
    # Single-process NCCL: DataParallel adds without it.
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)


def _install_streams(process: Process, patches: Patches) -> None:
    stream_base = type("_CudaStreamBase", (streams.StreamBase,), {"process": process})
    event_base = type("_CudaEventBase", (streams.EventBase,), {"process": process})
    patches.set(torch._C, "_CudaStreamBase", stream_base)
    patches.set(torch._C, "_CudaEventBase", event_base)
    # torch's own Stream and Event classes again, over the replaced bases.
    spec = importlib.util.find_spec("torch.cuda.streams")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("Stream", "Event", "ExternalStream"):
        patches.set(torch.cuda, name, getattr(module, name))
        patches.set(torch.cuda.streams, name, getattr(module, name))
    patches.set(torch, "Stream", stream_base)
    patches.set(torch, "Event", event_base)
    patches.set(torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", lambda: False)
    graphs = _refuse("CUDA graphs")
    for owner in (torch.cuda, torch.cuda.graphs):
        patches.set(owner, "CUDAGraph", type("CUDAGraph", (), {"__new__": graphs}))
    patches.set(torch.cuda, "graph", type("graph", (), {"__new__": graphs}))


def _install_backends(patches: Patches) -> None:
    cudnn = torch.backends.cudnn
    patches.set(cudnn, "is_available", lambda: True)
    patches.set(cudnn, "version", lambda: CUDNN_VERSION)
    # cuDNN's kernels are not there: RNNs take torch's own.
    patches.set(cudnn, "is_acceptable", lambda tensor: False)


def _refuse(what: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{what} cannot be simulated on virtual GPUs")

    return refuse


class _Driver:
    """torch._C's functions by name. Device arguments are indices as this process counts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._streams = streams.CurrentStreams()
        self._sync_debug_mode = 0

    # Devices

    def _cuda_getDeviceCount(self) -> int:
        return len(self._process.devices())

    def _cuda_isInBadFork(self) -> bool:
        return self._process.in_bad_fork()

    def _cuda_init(self) -> None:
        self._process.cu_init()

    def _cuda_getDevice(self) -> int:
        self._process.initialize()
        return self._process.current

    def _cuda_setDevice(self, index: int) -> None:
        # THCPModule_setDevice_wrap sets with force: the context opens here (CUDA 12).
        self._process.current = index
        self._process.memory(index)

    def _cuda_exchangeDevice(self, index: int) -> int:
        if index < 0:
            return -1
        self._process.initialize()
        previous = self._process.current
        if index != previous:
            # c10/cuda/CUDAFunctions.cpp, ExchangeDevice: cudaSetDevice opens the context.
            self._process.current = index
            self._process.memory(index)
        return previous

    def _cuda_maybeExchangeDevice(self, index: int) -> int:
        if index < 0:
            return -1
        previous = self._process.current
        self._process.current = index
        return previous

    def _cuda_canDeviceAccessPeer(self, index: int, peer: int) -> bool:
        return index != peer

    def _cuda_hasPrimaryContext(self, index: int) -> bool:
        return self._process.has_context(index)

    def _cuda_getArchFlags(self) -> str:
        return ARCHITECTURES

    def _cuda_getCompiledVersion(self) -> int:
        return CUDA_VERSION_NUMBER

    def _cuda_getDriverVersion(self) -> int:
        return CUDA_VERSION_NUMBER

    def _cuda_synchronize(self) -> None:
        self._process.memory(self._process.current)

    def _cuda_sleep(self, cycles: int) -> None:
        self._process.memory(self._process.current)

    def _cuda_ipc_collect(self) -> None:
        pass

    def _cuda_set_sync_debug_mode(self, mode: int) -> None:
        self._sync_debug_mode = mode

    def _cuda_get_sync_debug_mode(self) -> int:
        return self._sync_debug_mode

    def _cuda_clearCublasWorkspaces(self) -> None:
        pass

    def _cuda_lock_mutex(self) -> None:
        pass

    def _cuda_unlock_mutex(self) -> None:
        pass

    # Streams

    def _cuda_getCurrentStream(self, index: int) -> tuple[int, int, int]:
        return self._streams.get(index)

    def _cuda_getDefaultStream(self, index: int) -> tuple[int, int, int]:
        return streams.default_stream(index)

    def _cuda_getCurrentRawStream(self, index: int) -> int:
        return self._streams.get(index)[0]

    def _cuda_setStream(self, stream_id: int, device_index: int, device_type: int) -> None:
        # As in c10: setting a stream makes its device current.
        if device_index != self._process.current:
            self._process.current = device_index
        self._streams.set(stream_id, device_index)

    def _cuda_getStreamFromExternal(self, pointer: int, index: int) -> tuple[int, int, int]:
        return (pointer, index, 1)

    def _cuda_isCurrentStreamCapturing(self) -> bool:
        return False

    # Memory

    def _memory(self, index: int) -> DeviceMemory | None:
        self._process.initialize()
        self._process.check_index(index)
        return self._process.memory(index) if self._process.has_context(index) else None

    def _cuda_emptyCache(self) -> None:
        for index in range(len(self._process.memories)):
            if self._process.has_context(index):
                self._process.memory(index).empty_cache()

    def _cuda_memoryStats(self, index: int) -> dict[str, Any]:
        return _statistics(self._memory(index))

    def _cuda_resetPeakMemoryStats(self, index: int) -> None:
        if memory := self._memory(index):
            memory.reset_peaks()

    def _cuda_resetAccumulatedMemoryStats(self, index: int) -> None:
        if memory := self._memory(index):
            memory.reset_totals()

    def _cuda_setMemoryFraction(self, fraction: float, index: int) -> None:
        self._process.memory(index).fraction = fraction

    def _cuda_getMemoryFraction(self, index: int) -> float:
        return self._process.memory(index).fraction

    def _cuda_getAllocatorBackend(self) -> str:
        return "native"

    def _cuda_memorySnapshot(self, pool: object = None) -> dict[str, Any]:
        return {"segments": [], "device_traces": [], "allocator_settings": {}}

    def _cuda_record_memory_history(self, *_: Any, **__: Any) -> None:
        pass

    _cuda_record_memory_history_legacy = _cuda_record_memory_history

    def _cuda_hostMemoryStats(self) -> dict[str, Any]:
        return {}

    def _cuda_resetPeakHostMemoryStats(self) -> None:
        pass

    def _cuda_resetAccumulatedHostMemoryStats(self) -> None:
        pass

    # torch.accelerator: the same under other names

    def _get_accelerator(self, check: bool | None = None) -> torch.device:
        return torch.device("cuda")

    def _accelerator_getAccelerator(self) -> torch.device | None:
        return torch.device("cuda")

    def _accelerator_getDeviceIndex(self) -> int:
        return self._cuda_getDevice()

    def _accelerator_setDeviceIndex(self, index: int) -> None:
        if index >= 0:
            self._cuda_setDevice(index)

    def _accelerator_exchangeDevice(self, index: int) -> int:
        return self._cuda_exchangeDevice(index)

    def _accelerator_maybeExchangeDevice(self, index: int) -> int:
        return self._cuda_maybeExchangeDevice(index)

    def _accelerator_getStream(self, index: int) -> Any:
        stream_id, device_index, _ = self._streams.get(index)
        return torch.cuda.Stream(stream_id=stream_id, device_index=device_index)

    def _accelerator_setStream(self, stream: Any) -> None:
        self._cuda_setStream(stream.stream_id, stream.device_index, stream.device_type)

    def _accelerator_synchronizeDevice(self, index: int) -> None:
        self._process.memory(index)

    def _accelerator_isAllocatorInitialized(self) -> bool:
        return self._process.initialized

    def _accelerator_emptyCache(self) -> None:
        self._cuda_emptyCache()

    def _accelerator_emptyHostCache(self) -> None:
        pass

    def _accelerator_getDeviceStats(self, index: int) -> dict[str, Any]:
        return self._cuda_memoryStats(index)

    def _accelerator_resetPeakStats(self, index: int) -> None:
        self._cuda_resetPeakMemoryStats(index)

    def _accelerator_resetAccumulatedStats(self, index: int) -> None:
        self._cuda_resetAccumulatedMemoryStats(index)

    def _accelerator_getMemoryInfo(self, index: int) -> tuple[int, int]:
        memory = self._process.memory(index)
        return memory.free_bytes(), memory.device.total_bytes


def _statistics(memory: DeviceMemory | None) -> dict[str, Any]:
    """The nested dictionary of torch.cuda.memory_stats, with what is counted here (all pools as
    one).
    """

    def pools(current: int = 0, peak: int = 0, freed: int = 0) -> dict[str, dict[str, int]]:
        one = {"current": current, "peak": peak, "allocated": current + freed, "freed": freed}
        none = dict.fromkeys(one, 0)
        return {"all": one, "large_pool": none, "small_pool": dict(none)}

    if memory is None:
        allocated = count = reserved = pools()
        retries = ooms = 0
    else:
        allocated = pools(memory.allocated, memory.allocated_peak, memory.freed)
        count = pools(memory.allocations, memory.allocations, memory.frees)
        reserved = pools(memory.reserved, memory.reserved_peak)
        retries, ooms = memory.retries, memory.ooms
    return {
        "allocation": count,
        "allocated_bytes": allocated,
        "active": count,
        "active_bytes": allocated,
        "requested_bytes": allocated,
        "reserved_bytes": reserved,
        "segment": pools(),
        "inactive_split": pools(),
        "inactive_split_bytes": pools(),
        "oversize_allocations": pools()["all"],
        "oversize_segments": pools()["all"],
        "num_alloc_retries": retries,
        "num_ooms": ooms,
        "num_sync_all_streams": 0,
        "num_device_alloc": 0,
        "num_device_free": 0,
        "max_split_size": -1,
    }


class _Nvtx:
    """Marks for a profiler that is not there; ranges keep their depth."""

    def __init__(self) -> None:
        self._depth = 0

    def rangePushA(self, message: str) -> int:
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        self._depth = max(0, self._depth - 1)
        return self._depth

    def rangeStartA(self, message: str) -> int:
        return 0

    def rangeEnd(self, handle: int) -> None:
        pass

    def markA(self, message: str) -> None:
        pass


class _Runtime:
    """torch.cuda.cudart()."""

    class cudaError:
        success = 0

    def __init__(self, process: Process) -> None:
        self._process = process

    def cudaGetErrorString(self, code: object) -> str:
        return f"CUDA error {code}"

    def cudaMemGetInfo(self, index: int) -> tuple[int, int]:
        memory = self._process.memory(int(index))
        return memory.free_bytes(), memory.device.total_bytes

    def cudaDeviceSynchronize(self) -> int:
        self._process.memory(self._process.current)
        return 0

    def cudaProfilerStart(self) -> int:
        return 0

    def cudaProfilerStop(self) -> int:
        return 0

    def cudaHostRegister(self, *_: object) -> int:
        return 0

    def cudaHostUnregister(self, *_: object) -> int:
        return 0
