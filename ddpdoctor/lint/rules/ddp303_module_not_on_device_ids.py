"""DDP303: the wrapped module is on another GPU than device_ids[0]."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Const, Index, Role, Value
from ddpdoctor.lint.wrapping import first_device_id


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("wrap"):
        if not trace.is_distributed(event) or trace.is_isolated(event):
            continue
        first = first_device_id(event)
        if first is None:
            continue
        wanted = trace.indices(event, as_device(first, event.path))
        actual = trace.indices(event, event.device)
        if not wanted or not actual or not _differ(wanted, actual):
            continue
        yield Draft(
            "DDP303",
            event.place,
            "the module is not on device_ids[0]",
            behaviour="the module is on cuda:0 on every rank, device_ids names each rank's own GPU",
            symptom='"DistributedDataParallel device_ids and output_device arguments only work '
            "with single-device GPU modules\", NCCL's duplicate GPU, or a hang",
            repair="move the module to device_ids[0] before wrapping it",
            # A constant that is written down has a finding and a repair of its own.
            fix=bind_first_group(trace, event) if all(i.origin is None for i in actual) else None,
        )


def _differ(wanted: list[Value], actual: list[Value]) -> bool:
    """One side is a constant, the other the local rank: they agree on rank 0 only."""
    return all(isinstance(index, Index) and index.role in _OWN for index in wanted) and all(
        isinstance(index, Const) for index in actual
    )


_OWN = (Role.LOCAL, Role.GLOBAL, Role.LOCAL_ARGUMENT)
