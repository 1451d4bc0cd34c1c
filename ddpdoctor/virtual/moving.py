"""Moving tensors between devices, and asking where they are."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ddpdoctor.virtual.creation import as_device
from ddpdoctor.virtual.labels import CPU_INDEX, device_of, label_of, storage_of
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches


def install(placer: Placer, patches: Patches) -> None:
    tensor = torch.Tensor
    mover = _Mover(placer)
    patches.set(tensor, "device", property(device_of))
    patches.set(tensor, "is_cuda", property(lambda self: self.device.type == "cuda"))
    patches.set(tensor, "is_cpu", property(lambda self: self.device.type == "cpu"))
    patches.set(tensor, "get_device", _get_device)
    patches.set(torch, "get_device", _get_device)
    for name in (
        "to",
        "cuda",
        "cpu",
        "type",
        "type_as",
        "copy_",
        "numpy",
        "pin_memory",
        "is_pinned",
    ):
        real = getattr(tensor, name)
        patches.set(tensor, name, functools.wraps(real)(getattr(mover, name)(real)))
    # Lazy modules let these methods through by identity.
    lazy: Any = torch.nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]
    patched = [tensor.to, tensor.cuda, tensor.cpu, tensor.copy_]
    patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, *patched])
    patches.set(tensor, "record_stream", lambda self, stream: None)
    patches.set(torch._C._nn, "_parse_to", _parse_to(torch._C._nn._parse_to))


def _get_device(tensor: torch.Tensor) -> int:
    device = tensor.device
    return -1 if device.type == "cpu" else device.index or 0


def _parse_to(real: Any) -> Any:
    """Module.to's parser: an integer is a CUDA device there too."""

    @functools.wraps(real)
    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (as_device(args[0]), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = as_device(kwargs["device"])
        return real(*args, **kwargs)

    return parse_to


class Move(torch.autograd.Function):
    """A copy on another device; the gradient comes back to where the tensor was."""

    @staticmethod
    def forward(tensor: torch.Tensor, placer: Placer, index: int, kwargs: dict[str, Any]) -> Any:
        return fresh_copy(placer, tensor, index, kwargs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        tensor, placer, index, _ = inputs
        label = label_of(tensor)
        ctx.placer, ctx.index = placer, index
        ctx.home = CPU_INDEX if label is None else label.index
        ctx.dtype = tensor.dtype

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return moved(ctx.placer, gradient, ctx.home, {"dtype": ctx.dtype}), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: Any) -> Any:
        return moved(ctx.placer, tangent, ctx.index, {})


def fresh_copy(
    placer: Placer, tensor: torch.Tensor, index: int, kwargs: dict[str, Any]
) -> torch.Tensor:
    """A copy of the tensor on the device; kwargs as Tensor.to takes them (dtype, memory_format)."""
    if index != CPU_INDEX:
        placer.process.memory(index)
    outer, placer.target = placer.target, index
    try:
        result = torch._C.TensorBase.to(tensor, **{**kwargs, "copy": True})
    finally:
        placer.target = outer
    placer.labels.put(result, index)
    return result


def moved(placer: Placer, tensor: torch.Tensor, index: int, kwargs: dict[str, Any]) -> torch.Tensor:
    """Tensor.to(device, **kwargs): the tensor itself where it is there already."""
    label = label_of(tensor)
    if (CPU_INDEX if label is None else label.index) == index and not kwargs.get("copy"):
        if label is None:
            placer.labels.put(tensor, index)
        return torch._C.TensorBase.to(tensor, **kwargs) if kwargs else tensor
    if tensor.requires_grad and torch.is_grad_enabled():
        return Move.apply(tensor, placer, index, kwargs)  # type: ignore[no-untyped-call, no-any-return]
    return fresh_copy(placer, tensor, index, kwargs)


class _Mover:
    """Each method takes torch's own and returns what replaces it."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer

    def to(self, real: Any) -> Any:
        placer = self._placer

        def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else kwargs.get("device", kwargs.get("other"))
            if first is None or isinstance(first, torch.dtype):
                return real(self, *args, **kwargs)
            if isinstance(first, torch.Tensor):
                device: torch.device | None = first.device
                names: tuple[str, ...] = ("non_blocking", "copy")
                kwargs = {"dtype": first.dtype, **kwargs}
            else:
                device = as_device(first)
                names = ("dtype", "non_blocking", "copy")
            kwargs.pop("device", None)
            kwargs.pop("other", None)
            kwargs.update(zip(names, args[1:], strict=False))
            kwargs = {name: value for name, value in kwargs.items() if value is not None}
            index = placer.index_of(device)
            if index is None or _dispatches_itself(self) or device_of(self).type == "meta":
                return real(self, device=device, **kwargs)
            kwargs.pop("non_blocking", None)
            return moved(placer, self, index, kwargs)

        return to

    def cuda(self, real: Any) -> Any:
        def cuda(
            self: torch.Tensor,
            device: Any = None,
            non_blocking: bool = False,
            memory_format: torch.memory_format = torch.preserve_format,
        ) -> torch.Tensor:
            wanted = torch.device("cuda") if device is None else as_device(device)
            if wanted is not None and wanted.type != "cuda":
                raise RuntimeError("Invalid device, must be cuda device")
            return self.to(wanted, non_blocking=non_blocking, memory_format=memory_format)

        return cuda

    def cpu(self, real: Any) -> Any:
        def cpu(
            self: torch.Tensor, memory_format: torch.memory_format = torch.preserve_format
        ) -> torch.Tensor:
            return self.to("cpu", memory_format=memory_format)

        return cpu

    def type(self, real: Any) -> Any:
        def type_(
            self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any
        ) -> Any:
            if dtype is None and not kwargs:
                name = real(self)
                return name.replace("torch.", "torch.cuda.", 1) if self.is_cuda else name
            if isinstance(dtype, torch.dtype):
                return real(self, dtype, non_blocking, **kwargs)
            name = dtype if isinstance(dtype, str) else _type_name(dtype)
            device = "cuda" if name.startswith("torch.cuda.") else "cpu"
            if device == "cuda" and self.is_cuda:
                device = str(self.device)
            plain = getattr(torch, name.rpartition(".")[2]).dtype
            return self.to(device, plain, non_blocking)

        return type_

    def type_as(self, real: Any) -> Any:
        def type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return self.to(other.device, other.dtype)

        return type_as

    def copy_(self, real: Any) -> Any:
        placer = self._placer

        def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> Any:
            if isinstance(src, torch.Tensor) and src.requires_grad and torch.is_grad_enabled():
                label = label_of(self)
                if label is not None and not _dispatches_itself(src):
                    src = moved(placer, src, label.index, {})
            return real(self, src, non_blocking)

        return copy_

    def numpy(self, real: Any) -> Any:
        def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
            if self.is_cuda:
                if force:
                    return real(self.detach().cpu(), force=True)
                # torch/csrc/utils/tensor_numpy.cpp
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                    "copy the tensor to host memory first."
                )
            return real(self, force=force)

        return numpy

    def pin_memory(self, real: Any) -> Any:
        placer = self._placer

        def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
            if self.is_cuda:
                raise RuntimeError(
                    f"cannot pin '{self.type()}' only dense CPU tensors can be pinned"
                )
            if self.is_pinned():
                return self
            # Pinned memory belongs to a context: the current device's is opened for it.
            placer.process.initialize()
            placer.process.memory(placer.process.current)
            pinned = self.clone(memory_format=torch.preserve_format)
            placer.mark(pinned, CPU_INDEX)
            storage = storage_of(pinned)
            if storage is not None:
                storage._pinned = True  # type: ignore[attr-defined]
            return pinned

        return pin_memory

    def is_pinned(self, real: Any) -> Any:
        def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
            storage = storage_of(self)
            return storage is not None and getattr(storage, "_pinned", False)

        return is_pinned


def _dispatches_itself(tensor: torch.Tensor) -> bool:
    """DTensor and other subclasses that move their parts themselves."""
    return type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def _type_name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__name__}"
