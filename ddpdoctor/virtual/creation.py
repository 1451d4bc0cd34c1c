"""What a user's call makes is labelled: the device asked for, the default device or the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _device as default_device

from ddpdoctor.virtual.labels import CPU, CPU_INDEX, faking, label_of
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches

# The pattern's device is theirs unless another is asked for.
_LIKE = [
    "empty_like",
    "full_like",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "zeros_like",
]
_NEW = ["new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros"]
_FROM_HOST = ["from_numpy", "frombuffer", "from_file"]


def install(placer: Placer, patches: Patches) -> None:
    for module in (torch, torch.fft, torch.nested):
        for name, function in list(vars(module).items()):
            if _is_factory(function):
                patches.set(module, name, _factory(placer, function))
    # torch.normal makes a tensor only where it is given a size.
    for name in (*_LIKE, "normal"):
        patches.set(torch, name, _like(placer, getattr(torch, name)))
    for name in _NEW:
        patches.set(torch.Tensor, name, _like(placer, getattr(torch.Tensor, name)))
    for name in _FROM_HOST:
        patches.set(torch, name, _from_host(placer, getattr(torch, name)))
    for owner in (torch, torch.utils.dlpack):
        patches.set(owner, "from_dlpack", _from_dlpack(placer, torch.utils.dlpack.from_dlpack))
    patches.set(torch.Tensor, "new_tensor", _new_tensor(placer, torch.Tensor.new_tensor))
    patches.set(torch.Tensor, "new", _new(placer, torch.Tensor.new))
    patches.set(torch, "tensor", _tensor(placer, torch.tensor))
    patches.set(torch, "as_tensor", _as_tensor(placer, torch.as_tensor))
    patches.set(torch, "asarray", _as_tensor(placer, torch.asarray))
    wrapper = torch.Tensor._make_wrapper_subclass
    patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(_wrapper(placer, wrapper)))
    # TorchScript knows torch's functions by identity.
    find_builtin: Callable[[Any], Any] = torch.jit._builtins._find_builtin
    patches.set(
        torch.jit._builtins,
        "_find_builtin",
        lambda function: find_builtin(getattr(function, "__wrapped__", function)),
    )
    patches.set(torch.Tensor, "__new__", _legacy(placer, torch._C.TensorBase.__new__))


def _is_factory(function: object) -> bool:
    special = (torch.tensor, torch.as_tensor, torch.asarray)
    try:
        return function in default_device._device_constructors() and function not in special
    except TypeError:  # unhashable
        return False


def default_index(placer: Placer) -> int | None:
    """Where tensors go that name no device; None for a default such as meta."""
    if torch._C._len_torch_function_stack():
        for mode in torch.overrides._get_current_function_mode_stack():
            if isinstance(mode, default_device.DeviceContext):
                return placer.index_of(mode.device)
    if placer.default_type_is_cuda:
        return placer.cuda_index(torch.device("cuda"))
    return CPU_INDEX


def as_device(device: Any) -> torch.device | None:
    """A device as torch's own argument parser reads it: an integer is a CUDA device."""
    if device is None or isinstance(device, torch.device):
        return device
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device("cuda", device)
    return torch.device(device)


def _factory(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def factory(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if (out is not None and device is None) or faking():
            return real(*args, **kwargs, **({} if device is None else {"device": device}))
        device = as_device(device)
        index = default_index(placer) if device is None else placer.index_of(device)
        if index is None:
            return real(*args, device=device, **kwargs)
        if kwargs.pop("pin_memory", False):
            return real(*args, device=CPU, **kwargs).pin_memory()
        _check_generator(kwargs.get("generator"), index)
        return _placed(placer, index, real, *args, device=CPU, **kwargs)

    return factory


def _like(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def like(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        device = as_device(device)
        index = placer.index_of(device)
        if index is None or faking():
            if device is not None:
                kwargs["device"] = device
            return real(*args, **kwargs)
        # The pattern may be on meta.
        return _placed(placer, index, real, *args, device=CPU, **kwargs)

    return like


def _new_tensor(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    like = _like(placer, real)

    @functools.wraps(real)
    def new_tensor(self: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        """No operation sees the pattern, unlike with new_ones."""
        if device is None and not faking():
            device = self.device
        return like(self, *args, device=device, **kwargs)

    return new_tensor


def _placed(placer: Placer, index: int, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a factory with a target for what it makes."""
    if index != CPU_INDEX:
        placer.process.memory(index)
    outer, placer.target = placer.target, index
    try:
        result = real(*args, **kwargs)
    finally:
        placer.target = outer
    if isinstance(result, torch.Tensor):
        # Not mark: torch's Python code for meta patterns makes it with a factory of its own.
        placer.labels.put(result, index)
    return result


def _check_generator(generator: torch.Generator | None, index: int) -> None:
    if generator is not None:
        wanted = "cpu" if index == CPU_INDEX else "cuda"
        if generator.device.type != wanted:
            # aten/src/ATen/core/Generator.h, check_generator
            raise RuntimeError(
                f"Expected a '{wanted}' device type for generator but found "
                f"'{generator.device.type}'"
            )


def _from_host(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def from_host(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        placer.mark(result, CPU_INDEX)
        return result

    return from_host


def _from_dlpack(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def from_dlpack(external: Any, *args: Any, **kwargs: Any) -> Any:
        """The memory is shared, so the device is; only torch's own tensors tell it here."""
        result = real(external, *args, **kwargs)
        label = label_of(external) if isinstance(external, torch.Tensor) else None
        placer.mark(result, CPU_INDEX if label is None else label.index)
        return result

    return from_dlpack


def _tensor(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    factory = _factory(placer, real)

    @functools.wraps(real)
    def tensor(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None and isinstance(data, torch.Tensor):
            # torch.tensor(tensor) stays where the tensor is.
            device = data.device
        return factory(data, *args, device=device, **kwargs)

    return tensor


def _as_tensor(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def as_tensor(data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
        if device is None:
            wanted = None
            if not isinstance(data, torch.Tensor):
                wanted = default_index(placer)
        else:
            device = as_device(device)
            wanted = placer.index_of(device)
            if wanted is None:
                return real(data, dtype=dtype, device=device, **kwargs)
        # Sharing memory with the data is right on the CPU; what goes to a device is copied there.
        result = real(data, dtype=dtype, device=None if wanted is None else CPU, **kwargs)
        if not isinstance(data, torch.Tensor):
            placer.mark(result, CPU_INDEX)
        if wanted is None or not isinstance(result, torch.Tensor):
            return result
        return result.to(placer.labels.device(wanted))

    return as_tensor


def _new(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def new(self: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        """Tensor.new: the legacy constructor of the tensor's own type and device."""
        label = label_of(self)
        index = placer.index_of(as_device(device))
        if index is None:
            index = CPU_INDEX if label is None else label.index
        return _placed(placer, index, real, self, *args, **kwargs)

    return new


def _wrapper(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def make_wrapper_subclass(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        """A subclass that holds its data in other tensors (DTensor ...): only its device is its
        own.
        """
        device = as_device(device)
        if device is None or device.type != "cuda":
            return real(*args, **kwargs, **({} if device is None else {"device": device}))
        index = placer.cuda_index(device)
        result = real(*args, device=CPU, **kwargs)
        placer.labels.put_empty(result, index)
        return result

    return make_wrapper_subclass


def _legacy(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    # No names in the signature: torch._dynamo compares it with its own substitute's.
    def __new__(*args: Any, **kwargs: Any) -> Any:
        """torch.Tensor(2, 3) and torch.Tensor([1.0]) make tensors of the default type."""
        result = real(*args, **kwargs)
        if args[0] is torch.Tensor and label_of(result) is None and result.layout is torch.strided:
            placer.mark(
                result, placer.process.current if placer.default_type_is_cuda else CPU_INDEX
            )
        return result

    return __new__
