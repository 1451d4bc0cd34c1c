"""DDP206: one program finds its GPU by two rules that do not always agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.findings import Severity
from ddpdoctor.lint.paths import Path, compatible
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Index, Role


def check(trace: Trace) -> Iterator[Draft]:
    seen: list[Event] = []
    for event in trace.of("bind", "place", "create"):
        if not trace.is_distributed(event) or trace.is_isolated(event):
            continue
        other = next((other for other in seen if _differ(trace, other, event)), None)
        if other is not None:
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
        rule = _is_guessed(trace, event, event.path)
        if rule is not None and not any(
            other.path == event.path and _is_guessed(trace, other, other.path) == rule
            for other in seen
        ):
            seen.append(event)


def _differ(trace: Trace, one: Event, other: Event) -> bool:
    """Whether one run gets to both and finds its GPU by two rules: the branch of each launcher may
    have a rule of its own."""
    if one.process.owner() is not other.process.owner() or not compatible(one.path, other.path):
        return False
    path = {**one.path, **other.path}
    rules = _is_guessed(trace, one, path), _is_guessed(trace, other, path)
    return set(rules) == {True, False}


def _is_guessed(trace: Trace, event: Event, path: Path) -> bool | None:
    """Whether the index comes from the global rank, and not from the launcher's local one; None
    for others."""
    indices = trace.indices(replace(event, path=path), event.device)
    index = indices[0] if len(indices) == 1 else None
    if not isinstance(index, Index) or index.role is not Role.LOCAL or not index.exact:
        return None
    return index.guessed
