"""DDP206: one program finds its GPU by two rules that do not always agree."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Index, Role


def check(trace: Trace) -> Iterator[Draft]:
    first: dict[bool, Event] = {}
    for event in trace.of("bind", "place", "create"):
        if not trace.is_distributed(event) or trace.is_isolated(event):
            continue
        indices = trace.indices(event, event.device)
        if len(indices) != 1 or not isinstance(indices[0], Index):
            continue
        index = indices[0]
        if index.role is not Role.LOCAL or not index.exact:
            continue
        other = first.get(not index.counted)
        if other is not None and other.process.owner() is event.process.owner():
            yield Draft(
                "DDP206",
                event.place,
                "this GPU index is found by another rule than the one the process is bound by",
                Severity.INFO,
                behaviour="rank % device_count and LOCAL_RANK agree only where every machine has "
                "as many ranks as GPUs",
                symptom='"Expected all tensors to be on the same device" on some ranks, on some '
                "machines",
                repair="find the local rank once and pass it on",
                related=((other.place, "the other rule is used here"),),
            )
            return
        first.setdefault(index.counted, event)
