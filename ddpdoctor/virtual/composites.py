"""Functions made of several operations whose own code looks at devices, in C++ where it sees the
CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ddpdoctor.virtual.labels import CPU_INDEX, label_of
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches


def install(placer: Placer, patches: Patches) -> None:
    patches.set(torch.linalg, "matrix_rank", _beside_input(placer, torch.linalg.matrix_rank))
    patches.set(torch, "ctc_loss", _ctc_loss(torch.ctc_loss))
    for owner in (torch, torch.functional):
        patches.set(owner, "meshgrid", _meshgrid(torch.functional.meshgrid))


def _beside_input(placer: Placer, real: Any) -> Any:
    @functools.wraps(real)
    def beside_input(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Some results are made by a factory alone, "on the input's device"."""
        result = real(input, *args, **kwargs)
        label = label_of(input)
        placer.mark(result, CPU_INDEX if label is None else label.index)
        return result

    return beside_input


def _ctc_loss(real: Any) -> Any:
    @functools.wraps(real)
    def ctc_loss(log_probs: torch.Tensor, targets: Any, *lengths: Any, **kwargs: Any) -> Any:
        """Lengths may be on the CPU: the loss moves them to the device itself (LossCTC.cpp)."""
        moved = [
            each.to(log_probs.device) if isinstance(each, torch.Tensor) else each
            for each in lengths
        ]
        return real(log_probs, targets, *moved, **kwargs)

    return ctc_loss


def _meshgrid(real: Any) -> Any:
    @functools.wraps(real)
    def meshgrid(*tensors: Any, **kwargs: Any) -> Any:
        """It makes views only; nothing else would notice (aten/src/ATen/native/TensorShape.cpp)."""
        each = (
            tensors[0]
            if len(tensors) == 1 and not isinstance(tensors[0], torch.Tensor)
            else tensors
        )
        if len({tensor.device for tensor in each}) > 1:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
        return real(*tensors, **kwargs)

    return meshgrid
