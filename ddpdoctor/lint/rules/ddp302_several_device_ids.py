"""DDP302: device_ids with several GPUs for one process."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.rewrites import one_device_id
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import COUNTS, Sequence, Value, loop_number, same


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("wrap"):
        if not trace.is_distributed(event):
            continue
        alternatives = trace.alternatives(event, event.detail["device_ids"])
        if not alternatives or not all(_several(value) for value in alternatives):
            continue
        option = next((each.given for each in alternatives if isinstance(each, Sequence)), None)
        yield Draft(
            "DDP302",
            event.place,
            "device_ids names several GPUs for one process"
            + (f", the default of {option}" if option else ""),
            Severity.WARNING if option else Severity.ERROR,
            behaviour="every rank asks for the same GPUs, and DistributedDataParallel takes one",
            symptom='"device_ids can only be None or contain a single element"',
            repair="device_ids=[local_rank]",
            fix=one_device_id(trace, event),
        )


def _several(value: Value) -> bool:
    if not isinstance(value, Sequence):
        return False
    if not value.open or value.given is not None:
        return len(value.items) > 1
    # list(range(torch.cuda.device_count()))
    return any(same(each, loop_number(role)) for each in value.items[:1] for role in COUNTS)
