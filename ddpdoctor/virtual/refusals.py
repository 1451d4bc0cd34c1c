"""What cannot run without a GPU says so, by name."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ddpdoctor.virtual.imports import AfterImport
from ddpdoctor.virtual.patches import Patches


def install(patches: Patches) -> None:
    patches.set(torch, "compile", _compile)
    patches.set(torch.export, "export", _refuse_export)
    profile = torch.autograd.profiler.profile
    patches.set(profile, "__init__", _on_the_cpu(profile.__init__))
    _after_import(patches, "triton.runtime.jit", _refuse_triton)
    _after_import(patches, "torch.utils.cpp_extension", _refuse_extensions)


_noted: set[str] = set()


@functools.wraps(torch.compile)
def _compile(model: Any = None, **_: Any) -> Any:
    if model is None:
        return lambda function: _compile(function)
    if "compile" not in _noted:
        _noted.add("compile")
        warnings.warn(
            "torch.compile runs eagerly on virtual GPUs: there is nothing to compile for.",
            stacklevel=2,
        )
    return model


def _refuse_export(*_: Any, **__: Any) -> Any:
    # Fake tensors of a CUDA device with gradients end a process whose torch has no CUDA.
    raise RuntimeError("torch.export cannot be simulated on virtual GPUs; export the model on cpu")


def _on_the_cpu(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        """The profiler sees what really runs, which is on the CPU."""
        kwargs = {**kwargs, "use_cuda": False} if "use_cuda" in kwargs else kwargs
        if kwargs.get("use_device") == "cuda":
            kwargs["use_device"] = None
        real(self, *args, **kwargs)

    return __init__


def _after_import(patches: Patches, module: str, action: Callable[[Patches, Any], None]) -> None:
    """Acts on a module now if it is imported, else right after it is."""
    if module in sys.modules:
        action(patches, sys.modules[module])
        return
    finder = AfterImport(module, lambda loaded: action(patches, loaded))
    sys.meta_path.insert(0, finder)
    patches.then(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)


def _refuse_triton(patches: Patches, module: Any) -> None:
    def run(self: Any, *_: Any, **__: Any) -> None:
        name = getattr(self, "__name__", None) or self.fn.__name__
        raise RuntimeError(f"the Triton kernel {name} cannot run on virtual GPUs")

    patches.set(module.JITFunction, "run", run)


def _refuse_extensions(patches: Patches, module: Any) -> None:
    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def load(name: str, *args: Any, **kwargs: Any) -> Any:
            sources = args[0] if args else kwargs.get("sources", [])
            files = [sources] if isinstance(sources, str) else list(sources)
            cuda = kwargs.get("with_cuda") or kwargs.get("cuda_sources")
            if cuda or any(str(file).endswith(".cu") for file in files):
                raise RuntimeError(f"the CUDA extension {name} cannot run on virtual GPUs")
            return real(name, *args, **kwargs)

        return load

    for function in ("load", "load_inline"):
        patches.set(module, function, refusing(getattr(module, function)))


def kernel_missing(name: str, error: NotImplementedError) -> NotImplementedError:
    """An operation that only has a CUDA kernel."""
    return NotImplementedError(
        f"the operation {name} has a kernel for CUDA only and cannot run on virtual GPUs ({error})"
    )
