"""DDP201: a process group is opened in a process that never chooses its GPU, but relies on it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_process
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace


def check(trace: Trace) -> Iterator[Draft]:
    for group in trace.of("group"):
        if group.detail.get("framework") or not trace.is_distributed(group):
            continue
        uses = [event for event in trace.events if _relies_on_binding(trace, group, event)]
        if not uses or _bound_later(trace, group):
            continue
        yield Draft(
            "DDP201",
            group.place,
            "the process group is opened, but no rank has chosen its GPU",
            behaviour="the current device of every rank stays cuda:0",
            symptom="NCCL hangs or reports a duplicate GPU, and all ranks show up on GPU 0",
            repair="call torch.cuda.set_device(local_rank) before anything touches CUDA",
            related=tuple((event.place, "relies on the current device") for event in uses[:3]),
            fix=bind_process(trace, group),
        )


def _relies_on_binding(trace: Trace, group: Event, event: Event) -> bool:
    if event.process is not group.process or group not in trace.groups(event):
        return False
    if event.kind in ("place", "create", "default", "load"):
        return trace.unindexed(event)
    if event.kind == "shard" and event.detail["mesh"] is not None:
        return False
    if event.kind in ("objects", "shard"):
        return event.device is None and trace.needs_current_device(event)
    return False


def _bound_later(trace: Trace, group: Event) -> bool:
    """Binding after the group is open is late, but it is binding: DDP202 speaks of it."""
    return any(
        event.process is group.process
        and group in trace.groups(event)
        and not event.detail.get("block")
        for event in trace.of("bind")
    )
