"""DDP202: the process is bound to its GPU only after it has used the current device."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace


def check(trace: Trace) -> Iterator[Draft]:
    for bind in trace.of("bind"):
        if bind.detail.get("block") or not trace.is_distributed(bind):
            continue
        if bind.process.kind == "thread" or trace.binding(bind) != "unbound":
            continue
        if trace.is_isolated(bind):
            continue
        early = [event for event in trace.before(bind) if _used_current_device(trace, event)]
        if not early:
            continue
        yield Draft(
            "DDP202",
            bind.place,
            "the process is bound to its GPU too late: it has already used cuda:0",
            behaviour="every rank opens a context on cuda:0 first, and what was put there stays",
            symptom='memory of every rank on GPU 0, or "Expected all tensors to be on the same '
            'device, but found at least two devices, cuda:0 and cuda:1"',
            repair="move this line before the first use of CUDA",
            related=tuple((event.place, "uses cuda:0 on every rank") for event in early[:3]),
            fix=bind_first_group(trace, bind),
        )


def _used_current_device(trace: Trace, event: Event) -> bool:
    if event.process.kind == "thread":
        return False
    if event.kind in ("place", "create"):
        return trace.unindexed(event)
    if event.kind == "context" and event.device is None:
        return trace.needs_current_device(event)
    return event.kind == "objects" and trace.needs_current_device(event)
