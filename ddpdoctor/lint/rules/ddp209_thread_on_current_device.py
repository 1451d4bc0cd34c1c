"""DDP209: a thread uses the current device, which it does not inherit."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_thread
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Place


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("place", "create", "context"):
        index = trace.constant_index(event, event.device)
        asked = None if index is None else trace.asked_in_thread(index)
        if asked is not None and trace.is_distributed(event) and not trace.is_isolated(event):
            yield _draft(trace, asked, ((event.place, "takes effect here"),))
        elif event.process.kind == "thread" and _is_implicit(trace, event):
            yield _draft(trace, event)


def _is_implicit(trace: Trace, event: Event) -> bool:
    if event.kind == "context":
        return event.device is None and trace.needs_current_device(event)
    return trace.unindexed(event)


def _draft(trace: Trace, event: Event, related: tuple[tuple[Place, str], ...] = ()) -> Draft:
    return Draft(
        "DDP209",
        event.place,
        "this runs in a thread, and the current device is a thread's own",
        behaviour="set_device in the main thread does not reach here: the thread starts on "
        "cuda:0 on every rank",
        symptom='memory of every rank on GPU 0, or "Expected all tensors to be on the same device"',
        repair="call torch.cuda.set_device(local_rank) first thing in the thread (an executor "
        "takes it as initializer=), or name the device",
        related=related,
        fix=bind_thread(trace, event),
    )
