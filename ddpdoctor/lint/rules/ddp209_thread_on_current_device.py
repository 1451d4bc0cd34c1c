"""DDP209: a thread uses the current device, which it does not inherit."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_thread
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("place", "create", "context"):
        if event.process.kind != "thread":
            continue
        implicit = (
            event.device is None and trace.needs_current_device(event)
            if event.kind == "context"
            else trace.unindexed(event)
        )
        if not implicit:
            continue
        yield Draft(
            "DDP209",
            event.place,
            "this runs in a thread, and the current device is a thread's own",
            behaviour="set_device in the main thread does not reach here: the thread starts on "
            "cuda:0 on every rank",
            symptom='memory of every rank on GPU 0, or "Expected all tensors to be on the same '
            'device"',
            repair="call torch.cuda.set_device(local_rank) first thing in the thread (an executor "
            "takes it as initializer=), or name the device",
            fix=bind_thread(trace, event),
        )
