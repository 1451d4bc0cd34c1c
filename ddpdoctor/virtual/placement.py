"""Which mixes of devices an operation takes, and what it says when it refuses.

PyTorch's own rules, in three parts: kernels built on TensorIterator take CPU scalars (0-dim tensors)
beside CUDA tensors; indexing takes CPU indices; a few operations are made to cross devices. The
tables name the exceptions, by the operation's name without namespace and overload.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ddpdoctor.virtual import observers
from ddpdoctor.virtual.labels import CPU_INDEX, Label, label_of

# Copies: they exist to cross devices.
CROSSING = frozenset(
    {"copy_", "copy", "_copy_from", "_copy_from_and_resize", "_foreach_copy_", "set_data"}
)

# The result is on the first argument's device, and these arguments (by position) may be on the CPU:
# aten/src/ATen/native/TensorAdvancedIndexing.cpp (indices), RNN and CTC (lengths).
CPU_ARGUMENTS: dict[str, frozenset[int]] = {
    "index": frozenset({1}),
    "_unsafe_index": frozenset({1}),
    "index_put": frozenset({1}),
    "index_put_": frozenset({1}),
    "_index_put_impl_": frozenset({1}),
    "_unsafe_index_put": frozenset({1}),
    "_pack_padded_sequence": frozenset({1}),
    "_pack_padded_sequence_backward": frozenset({2}),
    "_ctc_loss": frozenset({1, 2, 3}),
    "_ctc_loss_backward": frozenset({2, 3, 4}),
    "_cudnn_ctc_loss": frozenset({1, 2, 3}),
    "tensor_split": frozenset({1}),
}

# Results that are on the CPU all the same.
CPU_RESULTS: dict[str, frozenset[int]] = {"_pack_padded_sequence": frozenset({1})}

# Each list is one argument of a fused step; its tensors meet index by index, and the step counts
# may be on the CPU (aten/src/ATen/native/ForeachUtils.h, can_use_fast_route).
FOREACH_PREFIXES = ("_foreach_", "_fused_", "_amp_foreach_")

# One argument decides although it is 0-dim and on the CPU: FakeTensor's list of the same name.
NO_CPU_SCALARS = frozenset({"nextafter"})

_NEW_WORDS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


def settle(
    name: str, tensors: Sequence[tuple[str, torch.Tensor]], table_name: str | None = None
) -> Label | None:
    """The label of the results of an operation whose tensors are on several devices.

    tensors: argument name and tensor, in order. Raises RuntimeError in PyTorch's words where the
    operation refuses the mix.
    """
    chosen: Label | None = None
    chosen_tensor: tuple[str, torch.Tensor] | None = None
    for argument, tensor in tensors:
        label = label_of(tensor)
        if label is None:
            continue
        if chosen is None or chosen_tensor is None or _yields(chosen, chosen_tensor[1], name):
            chosen, chosen_tensor = label, (argument, tensor)
        elif label.index != chosen.index and not _yields(label, tensor, name):
            refuse(name, [each for _, each in tensors], argument, label, chosen_tensor[0], chosen)
    return chosen


def _yields(label: Label, tensor: torch.Tensor, name: str) -> bool:
    """Whether a tensor follows the others: a CPU scalar does."""
    return label.index == CPU_INDEX and tensor.dim() == 0 and name not in NO_CPU_SCALARS


def refuse(
    name: str,
    tensors: list[torch.Tensor],
    argument: str,
    label: Label,
    common_argument: str,
    common: Label,
    message: str | None = None,
) -> None:
    """Tells the observers and raises RuntimeError.

    label is the odd one's, common the label the operation had settled on before.
    """
    if message is None:
        first, second = common.device, label.device
        message = (
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{first} and {second}!"
        )
        method = checked_method(name)
        if method is not None and _NEW_WORDS:
            message = (
                f"Expected all tensors to be on the same device, but got {argument} is on {second}, "
                f"different from other tensors on {first} (when checking argument in method {method})"
            )
        elif method is not None:
            message += f" (when checking argument for argument {argument} in method {method})"
    for callback in observers.mismatch_callbacks:
        callback(name, tensors, message)
    raise RuntimeError(message)


def checked_method(name: str) -> str | None:
    """The kernel whose generated code checks devices, as its message names it; None for TensorIterator's."""
    return None
