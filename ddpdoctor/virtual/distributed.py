"""torch.distributed on virtual GPUs: which backend a collective's tensors go to.

Every collective, from Python or from DDP's C++ code, is an operation of the c10d namespace, so the
dispatch mode sees it. All tensors are CPU tensors underneath: each group's CUDA backend is
registered for both, and the device types that the user asked for are kept beside it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ReduceOp
from torch.distributed import distributed_c10d

from ddpdoctor.virtual import operations
from ddpdoctor.virtual.labels import CPU_INDEX, label_of
from ddpdoctor.virtual.mode import Placer, Plan
from ddpdoctor.virtual.nccl import DEFAULT_TIMEOUT, Communicator, process_group_class
from ddpdoctor.virtual.operations import named_tensors
from ddpdoctor.virtual.patches import Patches


class Group:
    """What is kept of a process group: the device types asked for, and NCCL's communicator.

    coalescing: the sends and receives of a group call that has begun and not ended.
    """

    def __init__(self) -> None:
        self.devices: list[torch.device] = []
        self.communicator: Communicator | None = None
        self.coalescing: list[Any] | None = None


_groups: WeakKeyDictionary[Any, Group] = WeakKeyDictionary()


def install(placer: Placer, patches: Patches) -> None:
    if not dist.is_available():
        return
    nccl = process_group_class(placer.process)
    for module in (dist, distributed_c10d):
        patches.set(module, "ProcessGroupNCCL", nccl)
        patches.set(module, "is_nccl_available", lambda: True)
    patches.set(distributed_c10d, "_NCCL_AVAILABLE", True)
    patches.set(distributed_c10d, "default_pg_nccl_timeout", DEFAULT_TIMEOUT)
    group_class = distributed_c10d.ProcessGroup
    patches.set(group_class, "_register_backend", _register_backend(group_class._register_backend))
    patches.set(group_class, "_device_types", property(_device_types(group_class._device_types)))
    for name in ("allreduce", "reduce", "reduce_scatter", "_reduce_scatter_base"):
        patches.set(group_class, name, _averaging(getattr(group_class, name)))
    for name in ("send", "recv"):
        patches.set(group_class, name, _collected(getattr(group_class, name)))
    start, end = group_class._start_coalescing, group_class._end_coalescing
    patches.set(group_class, "_start_coalescing", _start_coalescing(start))
    patches.set(group_class, "_end_coalescing", _end_coalescing(end))
    operations.handlers["c10d"] = _collective
    operations.handlers["c10d::barrier"] = _barrier


def _register_backend(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def register_backend(
        self: Any, device: torch.device, backend_type: Any, backend: Any = None
    ) -> None:
        group = _groups.setdefault(self, Group())
        group.devices.append(device)
        real(self, device, backend_type, backend)
        if device.type != "cuda":
            return
        backend = getattr(backend, "wrapped_pg", backend)
        group.communicator = getattr(backend, "communicator", None)
        if group.communicator is not None and self.bound_device_id is not None:
            group.communicator.bound = self.bound_device_id.index
        if not any(each.type == "cpu" for each in group.devices):
            real(self, torch.device("cpu"), backend_type, backend)

    return register_backend


def _device_types(real: Any) -> Callable[[Any], list[torch.device]]:
    def device_types(self: Any) -> list[torch.device]:
        group = _groups.get(self)
        return list(group.devices) if group is not None else real.fget(self)

    return device_types


def _collective(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A c10d operation: its tensors' device chooses the backend, whose rules hold."""
    process_group = _process_group(plan, args, kwargs)
    group = _groups.get(process_group) if process_group is not None else None
    if group is None:
        return plan.run(*args, **kwargs)
    labels = [label_of(tensor) for _, tensor in named_tensors(plan, args, kwargs)]
    indices = sorted({label.index for label in labels if label is not None})
    kinds = {each.type for each in group.devices}
    if indices == [CPU_INDEX] and "cpu" not in kinds:
        raise RuntimeError("No backend type associated with device type cpu")
    if indices and indices[-1] != CPU_INDEX and "cuda" not in kinds:
        raise RuntimeError("No backend type associated with device type cuda")
    communicator = group.communicator
    if communicator is not None and indices and indices[-1] != CPU_INDEX:
        if CPU_INDEX in indices:
            # ProcessGroupNCCL.cpp, check_gpu_single_tensor
            raise ValueError("Tensors must be CUDA and dense")
        if len(indices) > 1:
            raise ValueError("Expected list of tensors on the same device")
        peer = _peer(plan, args)
        if peer is None:
            communicator.connect(indices[0])
        else:
            communicator.connect_pair(indices[0], peer)
    return _run(plan, args, kwargs)


def _run(plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if plan.name in ("_allgather_base_", "_reduce_scatter_base_"):
        # NCCL counts elements; gloo would split along the first dimension.
        flat = [tensor.view(-1) if tensor.is_contiguous() else tensor for tensor in args[:2]]
        _, work = plan.run(*flat, *args[2:], **kwargs)
        return args[0], work
    return plan.run(*args, **kwargs)


class Together:
    """The work of one group call."""

    def __init__(self, works: list[Any]) -> None:
        self._works = works

    def wait(self, *timeout: Any) -> bool:
        done = [work.wait(*timeout) for work in self._works]
        return all(done)

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)


def _start_coalescing(real: Callable[..., Any]) -> Callable[..., Any]:
    """NCCL's group calls; gloo has none, so its operations run one by one and are waited for
    together.
    """

    @functools.wraps(real)
    def start_coalescing(self: Any, device: torch.device) -> None:
        group = _groups.get(self)
        if group is None or group.communicator is None:
            real(self, device)
        else:
            group.coalescing = []

    return start_coalescing


def _end_coalescing(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def end_coalescing(self: Any, device: torch.device) -> Any:
        group = _groups.get(self)
        if group is None or group.coalescing is None:
            return real(self, device)
        works, group.coalescing = group.coalescing, None
        return Together(works)

    return end_coalescing


def _collected(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def collected(self: Any, *args: Any) -> Any:
        work = real(self, *args)
        group = _groups.get(self)
        if group is not None and group.coalescing is not None:
            group.coalescing.append(work)
        return work

    return collected


def _averaging(real: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction that can average, as NCCL's can: gloo cannot for integers, nor at all in 2.4."""

    @functools.wraps(real)
    def reduction(self: Any, outputs: Any, *args: Any) -> Any:
        group = _groups.get(self)
        options = args[-1] if args else None
        average = getattr(options, "reduceOp", None) == ReduceOp.AVG
        if group is None or group.communicator is None or not average:
            return real(self, outputs, *args)
        options.reduceOp = ReduceOp.SUM  # type: ignore[union-attr]
        work = real(self, outputs, *args)
        work.wait()
        for tensor in [outputs] if isinstance(outputs, torch.Tensor) else outputs:
            tensor.div_(self.size(), rounding_mode=None if tensor.is_floating_point() else "trunc")
        return work

    return reduction


def _barrier(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """NCCL's barrier is a collective on a device it chooses (ProcessGroupNCCL.cpp, barrier)."""
    process_group = _process_group(plan, args, kwargs)
    group = _groups.get(process_group) if process_group is not None else None
    communicator = None if group is None else group.communicator
    if communicator is not None:
        device_ids = args[2] if len(args) > 2 else kwargs.get("device_ids", [])
        if device_ids:
            index = device_ids[0]
        elif communicator.bound is not None:
            index = communicator.bound
        elif communicator.used:
            index = min(communicator.used)
        else:
            rank = dist.get_rank()
            index = rank % len(placer.process.devices())
            warnings.warn(
                f"[rank{rank}]: using GPU {index} as device used by this process is currently "
                "unknown. This can potentially cause a hang if this rank to GPU mapping is "
                "incorrect. You can specify device_id in init_process_group() to force use of a "
                "particular device.",
                stacklevel=2,
            )
        communicator.connect(index)
    return plan.run(*args, **kwargs)


def _process_group(plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if "process_group" not in plan.arguments:
        return None
    position = plan.arguments.index("process_group")
    boxed = args[position] if position < len(args) else kwargs["process_group"]
    return distributed_c10d.ProcessGroup.unbox(boxed)


def _peer(plan: Plan, args: Sequence[Any]) -> int | None:
    """The group rank a send or receive names."""
    if plan.name in ("send", "recv_"):
        return int(args[2])
    return None
