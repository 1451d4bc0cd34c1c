"""The five kernels of SyncBatchNorm that exist for CUDA only
(aten/src/ATen/native/cuda/Normalization.cuh).
"""

from __future__ import annotations

import torch

from ddpdoctor.virtual.patches import Patches


def install(patches: Patches) -> None:
    for function in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        patches.set(torch, function.__name__, function)


def batch_norm_stats(input: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and inverse standard deviation of each channel (dimension 1), in float32 for half
    inputs.
    """
    wide = _wide(input)
    variance, mean = torch.var_mean(wide, dim=_others(input), unbiased=False)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    input: torch.Tensor,
    mean_all: torch.Tensor,
    invstd_all: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    momentum: float,
    eps: float,
    count_all: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each rank's statistics (rank x channel) put together, and the running ones updated."""
    counts = count_all.view(-1, 1).to(mean_all.dtype)
    total = counts.sum()
    mean = (mean_all * counts).sum(0) / total
    variances = invstd_all.pow(-2) - eps
    variance = ((variances + (mean_all - mean).square()) * counts).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1))
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return mean, (variance + eps).rsqrt()


def batch_norm_elemt(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    result = (_wide(input) - _channels(mean, input)) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(weight, input)
    if bias is not None:
        result = result + _channels(bias, input)
    return result.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    gradient = _wide(grad_out)
    sum_dy = gradient.sum(_others(input))
    sum_dy_xmu = (gradient * (_wide(input) - _channels(mean, input))).sum(_others(input))
    dtype = sum_dy.dtype if weight is None else weight.dtype
    return (
        sum_dy,
        sum_dy_xmu,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else None,
        sum_dy.to(dtype) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    sum_dy: torch.Tensor,
    sum_dy_xmu: torch.Tensor,
    count: torch.Tensor,
) -> torch.Tensor:
    total = count.sum()
    spread = _channels(sum_dy_xmu / total * invstd.square(), input)
    result = _wide(grad_out) - _channels(sum_dy / total, input)
    result = (result - (_wide(input) - _channels(mean, input)) * spread) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(weight, input)
    return result.to(input.dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _others(input: torch.Tensor) -> list[int]:
    return [dim for dim in range(input.dim()) if dim != 1]


def _channels(values: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return _wide(values).view(1, -1, *[1] * (input.dim() - 2))
