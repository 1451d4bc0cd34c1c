"""torch.cuda.FloatTensor and its like, and the default tensor type they can be made."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ddpdoctor.virtual.labels import CPU_INDEX
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


def install(placer: Placer, patches: Patches) -> None:
    plains = {name: getattr(torch, name) for name in _DTYPES}
    for name, plain in plains.items():
        dtype = _DTYPES[name]
        patches.set(torch, name, _tensor_type(placer, "torch", name, dtype, plain))
        patches.set(torch.cuda, name, _tensor_type(placer, "torch.cuda", name, dtype, plain))
    _install_default(placer, patches, plains)


def _tensor_type(placer: Placer, module: str, name: str, dtype: torch.dtype, plain: Any) -> Any:
    cuda = module == "torch.cuda"

    class TensorType(type):
        """A class that nothing is an instance of by birth: isinstance asks for dtype and device."""

        def __instancecheck__(cls, instance: object) -> bool:
            return (
                isinstance(instance, torch.Tensor)
                and instance.dtype is dtype
                and instance.is_cuda == cuda
            )

        def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
            result: torch.Tensor = plain(*args, **kwargs)
            index = placer.process.current if cuda else CPU_INDEX
            if args and isinstance(args[0], torch.Tensor):
                return result
            placer.mark(result, index)
            return result

    return TensorType(
        name,
        (),
        {"__module__": module, "dtype": dtype, "is_cuda": cuda, "layout": torch.strided},
    )


def _install_default(placer: Placer, patches: Patches, plains: dict[str, Any]) -> None:
    real = torch.set_default_tensor_type

    @functools.wraps(real)
    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        placer.default_type_is_cuda = name.startswith("torch.cuda.")
        if placer.default_type_is_cuda:
            placer.process.initialize()
        real(plains[name.rpartition(".")[2]])

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
