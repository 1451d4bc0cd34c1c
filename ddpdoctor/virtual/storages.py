"""Storages of virtual GPUs: where they are, how they move, save, load and cross processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from ddpdoctor.virtual.creation import as_device
from ddpdoctor.virtual.labels import CPU_INDEX, CPU_LABEL, real_storage_device, storage_of
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches


def install(placer: Placer, patches: Patches) -> None:
    storage = torch.UntypedStorage
    patches.set(storage, "device", property(_device))
    patches.set(storage, "is_cuda", property(lambda self: _device(self).type == "cuda"))
    patches.set(storage, "get_device", lambda self: _device(self).index)
    patches.set(storage, "__new__", _new(placer, storage.__new__))
    patches.set(storage, "resize_", _resize(storage.resize_))
    patches.set(storage, "is_pinned", lambda self, device=None: getattr(self, "_pinned", False))
    # torch.load: what stays where it was read is on the CPU. cuda locations are PyTorch's own code.
    patches.set(torch.serialization, "_cpu_deserialize", _cpu_deserialize)
    registry = torch.serialization._package_registry
    registry.insert(0, (0, lambda obj: None, _cpu_deserialize))
    patches.then(lambda: registry.pop(0))
    patches.set(torch._utils, "_rebuild_tensor", _rebuild(torch._utils._rebuild_tensor))
    _install_sharing(placer, patches)


def _device(storage: torch.UntypedStorage) -> torch.device:
    label = getattr(storage, "_virtual", None)
    return label.device if label is not None else real_storage_device(storage)  # type: ignore[no-any-return]


def _new(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    def __new__(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        device = as_device(device)
        index = placer.index_of(device)
        if device is None or index is None:
            result = (
                real(*args, **kwargs) if device is None else real(*args, device=device, **kwargs)
            )
            if device is None:
                placer.labels.put_storage(result, CPU_INDEX)
            return result
        result = real(*args, **kwargs)
        placer.labels.put_storage(result, index)
        return result

    return __new__


def _resize(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        result = real(self, size)
        label = getattr(self, "_virtual", None)
        if label is not None:
            label.resize(size)
        return result

    return resize_


def _cpu_deserialize(storage: Any, location: str) -> Any:
    if location != "cpu":
        return None
    if getattr(storage, "_virtual", None) is None:
        storage._virtual = CPU_LABEL
    return storage


def _rebuild(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def rebuild_tensor(storage: Any, *args: Any) -> Any:
        untyped = storage._untyped_storage
        if real_storage_device(untyped).type == "cpu":
            _cpu_deserialize(untyped, "cpu")
        return real(storage, *args)

    return rebuild_tensor


_placers: list[Placer] = []


def _install_sharing(placer: Placer, patches: Patches) -> None:
    """Tensors on queues between processes: CUDA shares their memory, and so does a shared CPU
    storage.
    """
    _placers.append(placer)
    patches.then(_placers.clear)
    reduce_tensor: Callable[..., Any] = reductions.reduce_tensor

    @functools.wraps(reduce_tensor)
    def shared_tensor(tensor: torch.Tensor) -> Any:
        storage = storage_of(tensor)
        label = getattr(storage, "_virtual", None)
        if storage is None or label is None or label.index == CPU_INDEX:
            return reduce_tensor(tensor)
        storage._virtual = CPU_LABEL  # type: ignore[attr-defined]
        try:
            rebuild, arguments = reduce_tensor(tensor)
            # The storage is pickled after this function has returned: now, while it counts as the
            # CPU's.
            content = ForkingPickler.dumps(arguments)
        finally:
            storage._virtual = label  # type: ignore[attr-defined]
        return rebuild_on_device, (label.index, rebuild, bytes(content))

    patches.set(reductions, "reduce_tensor", shared_tensor)
    reductions.init_reductions()
    patches.then(reductions.init_reductions)


def rebuild_on_device(index: int, rebuild: Callable[..., Any], arguments: bytes) -> Any:
    """The receiving process's side. Raises RuntimeError where it has no virtual GPUs."""
    if not _placers:
        raise RuntimeError("a tensor of a virtual GPU was sent to a process without virtual GPUs")
    tensor = rebuild(*ForkingPickler.loads(arguments))
    _placers[0].labels.put(tensor, index)
    return tensor
