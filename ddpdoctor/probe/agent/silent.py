"""Misplacements that raise nothing: DDP moves an input, a buffer or optimizer state lies elsewhere.

Looked at a few times only, at the first forwards and steps: what is misplaced then stays so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddpdoctor.probe.agent.mismatches import describe
from ddpdoctor.probe.agent.user_code import stack, user_place
from ddpdoctor.probe.records import Recorder

_LOOKS = 2


def install(recorder: Recorder) -> None:
    told: set[str] = set()
    looks = {"forward": 0, "step": 0}

    def tell(operation: str, tensors: list[dict[str, Any]], message: str) -> None:
        if operation in told:
            return
        told.add(operation)
        place = user_place(stack(sys._getframe(2)))
        recorder.write(
            "mismatch",
            operation=operation,
            tensors=tensors,
            message=message,
            module="",
            place=place,
            silent=True,
        )

    forward: Any = DistributedDataParallel.forward

    @functools.wraps(forward)
    def watched_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if looks["forward"] < _LOOKS:
            looks["forward"] += 1
            for operation, tensors, message in left_buffers(self):
                tell(operation, tensors, message)
            for operation, tensors, message in moved_inputs(self, args, kwargs):
                tell(operation, tensors, message)
        return forward(self, *args, **kwargs)

    DistributedDataParallel.forward = watched_forward  # type: ignore[method-assign]

    def after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if looks["step"] < _LOOKS:
            looks["step"] += 1
            for operation, tensors, message in strange_state(optimizer):
                tell(operation, tensors, message)

    on_step: Any = register_optimizer_step_post_hook
    on_step(after_step)


Misplaced = tuple[str, list[dict[str, Any]], str]


def left_buffers(wrapper: Any) -> Iterator[Misplaced]:
    """Buffers that are not where the module's parameters are."""
    parameter = next(wrapper.module.named_parameters(), None)
    if parameter is None or len({p.device for p in wrapper.module.parameters()}) > 1:
        return  # a model split over devices has no one place for its buffers
    for name, buffer in wrapper.module.named_buffers():
        if buffer.device != parameter[1].device and buffer.dim() > 0:
            yield (
                "buffer",
                [
                    describe(buffer, name, "buffer"),
                    describe(parameter[1], parameter[0], "parameter"),
                ],
                f"buffer {name} is on {buffer.device}, the parameters are on "
                f"{parameter[1].device}: it was left behind when the module moved",
            )
            return


def moved_inputs(
    wrapper: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[Misplaced]:
    """Inputs on another GPU than device_ids[0], which DDP copies at every forward."""
    if not wrapper.device_ids:
        return
    target = torch.device("cuda", wrapper.device_ids[0])
    named = [(str(position), value) for position, value in enumerate(args)] + list(kwargs.items())
    for name, value in named:
        if isinstance(value, torch.Tensor) and value.is_cuda and value.device != target:
            yield (
                "DDP input",
                [describe(value, name, "argument")],
                f"input {name} is on {value.device} and DistributedDataParallel copies it to "
                f"{target} at every forward",
            )
            return


def strange_state(optimizer: torch.optim.Optimizer) -> Iterator[Misplaced]:
    """State tensors that are not where their parameter is (scalars such as `step` may be)."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if (
                isinstance(value, torch.Tensor)
                and value.dim() > 0
                and value.device != parameter.device
            ):
                yield (
                    "optimizer state",
                    [
                        describe(value, name, "optimizer state"),
                        describe(parameter, "", "parameter"),
                    ],
                    f"optimizer state {name} is on {value.device}, its parameter is on "
                    f"{parameter.device}",
                )
                return
