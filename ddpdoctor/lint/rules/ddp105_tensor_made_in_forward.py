"""DDP105: a tensor that a module makes in forward, or another method, stays on the CPU and meets
one on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.devices import is_cpu, is_cuda
from ddpdoctor.lint.placements import device_of_input
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.tensors import making
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Object, Place


def check(trace: Trace) -> Iterator[Draft]:
    reported: set[Place] = set()
    for event in trace.of("meet"):
        if not trace.is_distributed(event, surely=False):
            continue
        for mine, mine_at, other_at in (
            (event.detail["left"], event.device, event.detail["other"]),
            (event.detail["right"], event.detail["other"], event.device),
        ):
            made = making(mine)
            if made is None or made.place in reported or _is_scalar(mine):
                continue
            if not is_cpu(mine_at) or not is_cuda(other_at):
                continue
            reported.add(made.place)
            yield Draft(
                "DDP105",
                made.place,
                f"this tensor is made on the CPU in {made.detail['method']}, then meets "
                "tensors on the GPU",
                behaviour="the input is on the rank's GPU, this tensor is on the CPU",
                symptom='"Expected all tensors to be on the same device, but found at least two '
                'devices, cuda:0 and cpu!"',
                repair="make it where the input is: device=x.device",
                related=((event.place, "the two meet here"),),
                fix=device_of_input(made),
            )


def _is_scalar(value: object) -> bool:
    return isinstance(value, Object) and "#scalar" in value.attributes
