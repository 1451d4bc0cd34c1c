"""Who wants to know what happens on the virtual GPUs of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ContextCallback = Callable[[int], None]
MismatchCallback = Callable[[str, "list[torch.Tensor]", str], None]

context_callbacks: list[ContextCallback] = []
mismatch_callbacks: list[MismatchCallback] = []


def on_context(callback: ContextCallback) -> None:
    """Calls back with the device index, as this process counts devices, whenever it opens a
    context.
    """
    context_callbacks.append(callback)


def on_mismatch(callback: MismatchCallback) -> None:
    """Calls back before an operation is refused for its devices: its name, its tensors, the
    message.
    """
    mismatch_callbacks.append(callback)
