"""The C functions below torch.nn.parallel.comm, on which nn.DataParallel stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ddpdoctor.virtual.labels import CPU_INDEX
from ddpdoctor.virtual.patches import Patches

_Tensors = Sequence[torch.Tensor]


def install(patches: Patches) -> None:
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        patches.set(torch._C, function.__name__, function)


def _device(index: int) -> torch.device:
    return torch.device("cpu") if index == CPU_INDEX else torch.device("cuda", index)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(_device(index)) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: _Tensors) -> list[torch.Tensor]:
    return [each.copy_(tensor) for each in out]


def _broadcast_coalesced(
    tensors: _Tensors, devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [[tensor.to(_device(index)) for tensor in tensors] for index in devices]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Any = None,
) -> list[torch.Tensor]:
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split(list(chunk_sizes), dim)
    return [chunk.to(_device(index)) for chunk, index in zip(chunks, devices, strict=False)]


def _scatter_out(
    tensor: torch.Tensor, out: _Tensors, dim: int, streams: Any = None
) -> list[torch.Tensor]:
    chunks = tensor.split([each.size(dim) for each in out], dim)
    return [each.copy_(chunk) for each, chunk in zip(out, chunks, strict=True)]


def _gather(tensors: _Tensors, dim: int, destination: int | None) -> torch.Tensor:
    index = torch.cuda.current_device() if destination is None else destination
    return torch.cat([tensor.to(_device(index)) for tensor in tensors], dim)


def _gather_out(tensors: _Tensors, out: torch.Tensor, dim: int) -> torch.Tensor:
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))
