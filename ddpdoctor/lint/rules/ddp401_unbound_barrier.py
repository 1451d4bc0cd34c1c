"""DDP401: a barrier in a process that is not bound to its GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("barrier"):
        if event.detail["device_ids"] is not None or not trace.needs_current_device(event):
            continue
        yield Draft(
            "DDP401",
            event.place,
            "barrier() uses the current device, and this process was never bound to one",
            Severity.WARNING,
            behaviour="every rank opens a context on cuda:0, where the barrier has its tensor; "
            "where no collective came before, NCCL also has to guess which GPU to use",
            symptom="all ranks show up on GPU 0 beside their own GPU; where the guess is wrong, a "
            "hang or NCCL's duplicate GPU",
            repair="call torch.cuda.set_device(local_rank) first, or pass device_ids=[local_rank]",
            fix=bind_first_group(trace, event),
        )
