"""DDP306: a module is moved to another device after it was wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.placements import move_and_wrap
from ddpdoctor.lint.rewrites import argument_of
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Device, Object, same


def check(trace: Trace) -> Iterator[Draft]:
    wraps = {id(event.detail["module"]): event for event in trace.of("wrap")}
    for event in trace.of("place"):
        receiver = event.detail["receiver"]
        if not isinstance(receiver, Object) or not trace.is_distributed(event):
            continue
        module = receiver.attributes.get("#wrapped", receiver)
        wrap = wraps.get(id(module))
        if wrap is None or trace.events.index(wrap) > trace.events.index(event):
            continue
        before = trace.alternatives(wrap, wrap.device)
        after = trace.alternatives(event, event.device)
        if not all(isinstance(d, Device) for d in (*before, *after)):
            continue
        if any(_same_gpu(a, b) for a in before for b in after):
            continue
        yield Draft(
            "DDP306",
            event.place,
            "the module is moved to another device after it was wrapped",
            behaviour="DistributedDataParallel keeps its gradient buckets and hooks for the device "
            "that the parameters left",
            symptom="gradients are not averaged between ranks, or an error about devices in the "
            "first backward()",
            repair="move the module first, then wrap it",
            related=((wrap.place, "wrapped here"),),
            fix=move_and_wrap(trace, wrap, argument_of(event.place, "device", position=0)),
        )


def _same_gpu(before: object, after: object) -> bool:
    if not isinstance(before, Device) or not isinstance(after, Device):
        return False
    if before.kind != after.kind:
        return False
    return before.index is None or after.index is None or same(before.index, after.index)
