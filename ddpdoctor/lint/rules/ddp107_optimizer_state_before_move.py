"""DDP107: an optimizer's state is loaded while the model is on the CPU, then the model moves."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.placements import move_before
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Device, Object


def check(trace: Trace) -> Iterator[Draft]:
    for load in trace.of("load_state"):
        optimizer = load.detail["receiver"]
        module = optimizer.attributes.get("#steps") if isinstance(optimizer, Object) else None
        if module is None or not trace.is_distributed(load, surely=False):
            continue
        at = load.detail["module_at"]
        if not (isinstance(at, Device) and at.kind == "cpu"):
            continue
        behind = trace.events[trace.events.index(load) :]
        if any(e.kind == "state" and e.detail["receiver"] is optimizer for e in behind):
            continue  # optimizer.state is seldom asked for but to move it by hand
        later = [e for e in behind if e.kind == "place" and e.detail["receiver"] is module]
        if not later:
            continue
        yield Draft(
            "DDP107",
            load.place,
            "the optimizer's state is loaded before the model is moved to the GPU",
            behaviour="load_state_dict puts the state where the parameters are now, on the CPU; "
            "the parameters then leave for the GPU without it",
            symptom='"Expected all tensors to be on the same device" in the first optimizer.step()',
            repair="move the model first, then load the optimizer's state",
            related=((later[0].place, "the model moves here"),),
            fix=move_before(load, later[0]),
        )
