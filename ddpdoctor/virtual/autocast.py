"""Autocast on virtual GPUs follows CUDA's policy, not the CPU's.

The two differ where it hurts: layer_norm, softmax, exp or sum run in float32 under CUDA's autocast
and in half precision under the CPU's. All tensors are CPU tensors underneath, so the CPU's autocast
is on whenever CUDA's is, and the operations whose policies differ get a kernel of their own there.
Source: aten/src/ATen/autocast_mode.h and .cpp, torch 2.4 to 2.13.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ddpdoctor.virtual.labels import CPU_INDEX, label_of
from ddpdoctor.virtual.patches import Patches

_FLOAT32 = frozenset(
    [
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "pow.Tensor_Scalar",
        "pow.Tensor_Tensor",
        "pow.Scalar",
        "softplus",
        "layer_norm",
        "native_layer_norm",
        "rms_norm",
        "group_norm",
        "frobenius_norm.dim",
        "nuclear_norm",
        "nuclear_norm.dim",
        "cosine_similarity",
        "dist",
        "pdist",
        "renorm",
        "logsumexp",
        "upsample_nearest1d",
        "_upsample_nearest_exact1d",
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "upsample_nearest3d",
        "_upsample_nearest_exact3d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "_upsample_bilinear2d_aa",
        "upsample_trilinear3d",
        "upsample_bicubic2d",
        "_upsample_bicubic2d_aa",
    ]
)
# In float32 unless the call itself names a dtype.
_FLOAT32_UNLESS_DTYPE = frozenset(
    [
        "prod",
        "prod.dim_int",
        "softmax.int",
        "log_softmax.int",
        "cumprod",
        "cumsum",
        "linalg_vector_norm",
        "linalg_matrix_norm",
        "linalg_matrix_norm.str_ord",
        "sum",
        "sum.dim_IntList",
        "norm.Scalar",
        "norm.ScalarOpt_dim",
    ]
)
_PROMOTE = frozenset(
    [
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cross",
        "dot",
        "vdot",
        "grid_sampler",
        "index_put",
        "tensordot",
        "scatter_add",
    ]
)
# Both devices have a kernel, but not the same policy.
_DIFFERENT = frozenset({"grid_sampler", "binary_cross_entropy", "prod", "prod.dim_int"})
# The CPU's list casts these as CUDA's does their parts, or only promotes: nothing to replace.
_SAME = frozenset(
    [
        "_addmm_activation",
        "cat",
        "stack",
        "index_copy",
        "conv1d.padding",
        "conv2d.padding",
        "conv3d.padding",
        "cross_entropy_loss",
        "mkldnn_rnn_layer",
        "_native_multi_head_attention",
    ]
)

_exclude = torch._C._ExcludeDispatchKeyGuard
_AUTOCAST_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_Cast = Callable[[torch.dtype, Any], Any]


class _Requested(threading.local):
    """What the program asked of the CPU's own autocast, which CUDA's borrows."""

    def __init__(self) -> None:
        self.enabled = False
        self.dtype = torch.bfloat16


def install(patches: Patches) -> None:
    requested = _Requested()
    kernels = _Kernels(requested)
    set_enabled, is_enabled = torch.set_autocast_enabled, torch.is_autocast_enabled
    set_dtype, get_dtype = torch.set_autocast_dtype, torch.get_autocast_dtype

    def synchronize() -> None:
        cuda = is_enabled("cuda")
        if cuda:
            kernels.install(patches)
        set_enabled("cpu", cuda or requested.enabled)
        set_dtype("cpu", get_dtype("cuda") if cuda else requested.dtype)

    @functools.wraps(set_enabled)
    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        # set_autocast_enabled(True) without a device type is CUDA's, from before 2.4.
        arguments = [*args, *kwargs.values()]
        if "cpu" in arguments:
            requested.enabled = next(each for each in arguments if isinstance(each, bool))
        else:
            set_enabled(*args, **kwargs)
        synchronize()

    @functools.wraps(set_dtype)
    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        if device_type == "cpu":
            requested.dtype = dtype
        else:
            set_dtype(device_type, dtype)
        synchronize()

    @functools.wraps(is_enabled)
    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        return requested.enabled if device_type == "cpu" else is_enabled(device_type)

    @functools.wraps(get_dtype)
    def get_autocast_dtype(device_type: str) -> torch.dtype:
        return requested.dtype if device_type == "cpu" else get_dtype(device_type)

    patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
    patches.set(torch, "set_autocast_dtype", set_autocast_dtype)
    patches.set(torch, "is_autocast_enabled", is_autocast_enabled)
    patches.set(torch, "get_autocast_dtype", get_autocast_dtype)
    patches.set(torch, "is_autocast_cpu_enabled", lambda: requested.enabled)
    patches.set(torch, "get_autocast_cpu_dtype", lambda: requested.dtype)
    patches.set(torch, "set_autocast_gpu_dtype", lambda dtype: set_autocast_dtype("cuda", dtype))
    patches.set(torch, "set_autocast_cpu_dtype", lambda dtype: set_autocast_dtype("cpu", dtype))
    patches.set(
        torch, "set_autocast_cpu_enabled", lambda enabled: set_autocast_enabled("cpu", enabled)
    )


class _Kernels:
    """The replaced kernels, registered when CUDA's autocast is first turned on."""

    def __init__(self, requested: _Requested) -> None:
        self._requested = requested
        self._library: torch.library.Library | None = None

    def install(self, patches: Patches) -> None:
        if self._library is not None:
            return
        library = self._library = torch.library.Library("aten", "IMPL")
        patches.then(library._destroy)
        registered = torch._C._dispatch_has_kernel_for_dispatch_key
        for full_name in torch._C._dispatch_get_all_op_names():
            namespace, _, name = full_name.partition("::")
            if namespace != "aten" or name in _SAME or name.startswith("cudnn_"):
                continue
            on_cuda = registered(full_name, "AutocastCUDA")
            on_cpu = registered(full_name, "AutocastCPU")
            if on_cuda and (not on_cpu or name in _DIFFERENT):
                _register(library, full_name, self._kernel(name, _cuda_policy(name), _leave))
            elif on_cpu and not on_cuda:
                _register(library, full_name, self._kernel(name, _leave, _to_float32))

    def _kernel(self, name: str, cuda: _Cast, cpu: _Cast) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with _exclude(_AUTOCAST_CPU):
                if any(_is_cuda(each) for each in _flat((args, kwargs))):
                    if name == "binary_cross_entropy":
                        raise RuntimeError(_UNSAFE_LOSS)
                    if name not in _FLOAT32_UNLESS_DTYPE or kwargs.get("dtype") is None:
                        args, kwargs = cuda(torch.get_autocast_dtype("cuda"), (args, kwargs))
                elif self._requested.enabled:
                    args, kwargs = cpu(self._requested.dtype, (args, kwargs))
                return operation(*args, **kwargs)

        return kernel


def _register(library: torch.library.Library, name: str, kernel: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        # That a kernel is replaced is the point.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        library.impl(name, kernel, "AutocastCPU")


def _cuda_policy(name: str) -> _Cast:
    if name in _FLOAT32 or name in _FLOAT32_UNLESS_DTYPE:
        return _to_float32
    if name in _PROMOTE:
        return _to_widest
    return _to_lower


def _leave(dtype: torch.dtype, arguments: Any) -> Any:
    return arguments


def _to_float32(dtype: torch.dtype, arguments: Any) -> Any:
    return _cast(arguments, torch.float32)


def _to_lower(dtype: torch.dtype, arguments: Any) -> Any:
    return _cast(arguments, dtype)


def _to_widest(dtype: torch.dtype, arguments: Any) -> Any:
    dtypes = {each.dtype for each in _flat(arguments) if _is_eligible(each)}
    return _cast(arguments, torch.float32 if torch.float32 in dtypes else dtype)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _is_eligible(value) else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(each, dtype) for each in value)
    if isinstance(value, dict):
        return {key: _cast(each, dtype) for key, each in value.items()}
    return value


def _is_eligible(value: Any) -> bool:
    """Floating point, but not double (autocast_mode.h, is_eligible)."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _is_cuda(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    label = label_of(value)
    return label is None or label.index != CPU_INDEX


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, dict):
        yield from _flat(tuple(value.values()))
    else:
        yield value


_UNSAFE_LOSS = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
