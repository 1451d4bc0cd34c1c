"""DDP307: FSDP in a process that is not bound to its GPU and is not told which one to use."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Device


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("shard"):
        if not trace.needs_current_device(event):
            continue
        if event.detail["mesh"] is not None:
            continue
        device = trace.alternatives(event, event.device)
        if not all(isinstance(d, Device) and d.index is None for d in device):
            continue
        yield Draft(
            "DDP307",
            event.place,
            "the module is sharded on the current device, and this process was never bound to one",
            Severity.WARNING,
            behaviour="the current device is cuda:0 on every rank, so all shards meet there",
            symptom="GPU 0 runs out of memory, NCCL hangs or reports a duplicate GPU",
            repair="call torch.cuda.set_device(local_rank) first, or pass device_id=local_rank",
            fix=bind_first_group(trace, event),
        )
