"""DDP208: each rank sees one GPU only, and is then told to use its local rank as the index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.findings import Severity
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Index, Role, Value
from ddpdoctor.lint.wrapping import first_device_id


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("bind", "place", "create", "load", "wrap"):
        if not trace.is_distributed(event):
            continue
        shared = _gpu_of_all(trace, event)
        if shared is None and not trace.is_surely_isolated(event):
            continue
        value = event.device
        if event.kind == "wrap":
            first = first_device_id(event)
            value = None if first is None else as_device(first, event.path)
        indices = trace.indices(event, value)
        if not indices or not all(_own_number(index) for index in indices):
            continue
        own = Draft(
            "DDP208",
            event.place,
            "the local rank is used as the index, but each rank sees its own GPU only",
            behaviour="CUDA_VISIBLE_DEVICES leaves one GPU, cuda:0, and rank 1 asks for cuda:1",
            symptom='"CUDA error: invalid device ordinal" on every rank but the first',
            repair="use index 0 here, or leave CUDA_VISIBLE_DEVICES alone",
        )
        yield (
            own
            if shared is None
            else replace(
                own,
                message="the local rank is used as the index, but all ranks see one GPU only",
                severity=Severity.WARNING,
                repair="leave CUDA_VISIBLE_DEVICES to whoever starts the ranks",
                related=((shared.origin, "the only GPU is named here"),) if shared.origin else (),
            )
        )


def _gpu_of_all(trace: Trace, event: Event) -> Const | None:
    """The one GPU that the program itself leaves visible on every rank."""
    masks = trace.alternatives(event, event.state.visible)
    named = [mask for mask in masks if isinstance(mask, Const) and str(mask.value).isdigit()]
    return named[0] if named and len(named) == len(masks) else None


def _own_number(index: Value) -> bool:
    return (
        isinstance(index, Index) and index.role in (Role.LOCAL, Role.GLOBAL) and not index.counted
    )
