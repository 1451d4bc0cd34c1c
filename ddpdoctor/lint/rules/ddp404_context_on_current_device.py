"""DDP404: a call that opens a context on the current device of an unbound process."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("context"):
        if event.device is not None and not trace.unindexed(event):
            continue
        if event.process.kind == "thread" or not trace.needs_current_device(event):
            continue
        yield Draft(
            "DDP404",
            event.place,
            f"{event.name} uses the current device, and this process was never bound to one",
            Severity.WARNING,
            behaviour="every rank opens a context on cuda:0, some hundred MiB each",
            symptom="all ranks show up on GPU 0 in nvidia-smi beside their own GPU",
            repair="call torch.cuda.set_device(local_rank) first, or name the device",
            fix=bind_first_group(trace, event),
        )
