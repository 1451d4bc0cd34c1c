"""Which mixes of devices an operation takes, and what it says when it refuses.

PyTorch's own rules, in three parts. Kernels built on TensorIterator take CPU scalars (0-dim
tensors) beside CUDA tensors. Kernels with a generated device check take no mix at all:
checked_kernels.json lists them with their names (made by benchmarks/virtual_checked_kernels.py).
And a few operations are made to cross devices, or take some of their arguments from the CPU: the
tables below name them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from ddpdoctor.virtual import observers
from ddpdoctor.virtual.labels import CPU_INDEX, Label, label_of

# An argument's name and its value, in the operation's order.
Named = Sequence[tuple[str, torch.Tensor]]

# They copy from one device to another, or look at sizes only; the result is where the first
# argument is.
CROSSING = frozenset(
    [
        "copy",
        "copy_",
        "_copy_from",
        "_copy_from_and_resize",
        "_foreach_copy_",
        "set_data",
        "slice_scatter",
        "diagonal_scatter",
        "resize_as_",
    ]
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

# Tensors among their arguments are numbers: the result is where a factory's is.
NUMBERS = frozenset({"linspace", "logspace"})

# Each list is one argument of a fused step; its tensors meet index by index, and the step counts
# may be on the CPU (aten/src/ATen/native/ForeachUtils.h, can_use_fast_route).
FOREACH_PREFIXES = ("_foreach_", "_fused_", "_amp_foreach_")

# No CPU scalar beside CUDA tensors although no check is generated: FakeTensor's list.
NO_CPU_SCALARS = frozenset({"aten::nextafter"})

# Operations that reach a checked kernel under other argument names.
_BORROWED_CHECKS = {
    "aten::embedding": ("wrapper_CUDA__index_select", {"weight": "self", "indices": "index"}),
    "aten::convolution": ("wrapper_CUDA__cudnn_convolution", {"input": "self"}),
}

# 2.8 changed the words of the generated check (aten/src/ATen/core/op_registration/adaption.cpp).
_NEW_WORDS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


def settle(operation: str, tensors: Named) -> Label | None:
    """The label of the results of an operation whose tensors are on several devices.

    operation: "aten::add.Tensor". Raises RuntimeError in PyTorch's words where it refuses the mix.
    """
    placed = [
        (argument, tensor, label)
        for argument, tensor in tensors
        if (label := label_of(tensor)) is not None
    ]
    if _kernel(operation) is not None:
        common = placed[0][2]
        for argument, _, label in placed:
            if label.index != common.index:
                refuse(
                    operation, tensors, _checked_message(operation, argument, label, common, placed)
                )
        return common
    # TensorIterator (compute_types): the first tensor that is not on the CPU decides.
    common = next(label for _, _, label in placed if label.index != CPU_INDEX)
    for _, tensor, label in placed:
        scalar = label.index == CPU_INDEX and tensor.dim() == 0 and operation not in NO_CPU_SCALARS
        if label.index != common.index and not scalar:
            refuse(
                operation,
                tensors,
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{common.device} and {label.device}!",
            )
    return common


def refuse(operation: str, tensors: Named, message: str) -> None:
    """Tells the observers and raises RuntimeError."""
    name = operation.partition("::")[2].partition(".")[0]
    for callback in observers.mismatch_callbacks:
        callback(name, [tensor for _, tensor in tensors], message)
    raise RuntimeError(message)


def refuse_index(operation: str, tensors: Named, common: Label) -> None:
    """An index on another device than the tensor it indexes."""
    refuse(
        operation,
        tensors,
        "indices should be either on cpu or on the same device as the indexed tensor "
        f"({common.device})",
    )


def _checked_message(
    operation: str,
    argument: str,
    label: Label,
    common: Label,
    placed: Sequence[tuple[str, torch.Tensor, Label]],
) -> str:
    kernel = _kernel(operation)
    if operation == "aten::convolution" and CPU_INDEX in (label.index, common.index):
        # aten/src/ATen/native/Convolution.cpp, check_input_same_type_as_parameters
        kinds = {name: tensor.type() for name, tensor, _ in placed}
        kind, other = kinds["input"], kinds[argument]
        return f"Input type ({kind}) and {argument} type ({other}) should be the same"
    if operation in _BORROWED_CHECKS:
        argument = _BORROWED_CHECKS[operation][1].get(argument, argument)
    first, second = common.device, label.device
    if _NEW_WORDS:
        return (
            f"Expected all tensors to be on the same device, but got {argument} is on {second}, "
            f"different from other tensors on {first} (when checking argument in method {kernel})"
        )
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} "
        f"and {second}! (when checking argument for argument {argument} in method {kernel})"
    )


def _kernel(operation: str) -> str | None:
    """The kernel whose generated code checks devices; None where TensorIterator does."""
    if operation in _BORROWED_CHECKS:
        return _BORROWED_CHECKS[operation][0]
    return _checked_kernels().get(operation)


@functools.cache
def _checked_kernels() -> dict[str, str]:
    table: dict[str, str] = json.loads(
        (Path(__file__).parent / "checked_kernels.json").read_text("utf-8")
    )
    return table
