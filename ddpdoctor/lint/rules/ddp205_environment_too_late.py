"""DDP205: CUDA_VISIBLE_DEVICES or a rank variable is written after it has been read."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Index, Place, Unknown, Value


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("mask"):
        if not trace.is_distributed(event):
            continue
        if trace.has_started(event):
            started = trace.alternatives(event, event.state.started)
            yield _too_late(event, Severity.ERROR, started[0].origin)
            continue
        if all(_is_anything(mask) for mask in trace.alternatives(event, event.detail["value"])):
            continue  # a mask taken over from elsewhere, as a rule the one that is in force
        queries = [other for other in trace.before(event) if other.kind == "query"]
        if queries:
            yield _too_late(event, Severity.WARNING, queries[0].place)
    yield from _rank_variables(trace)


def _is_anything(mask: Value) -> bool:
    if isinstance(mask, Unknown) and isinstance(mask.default, Const):
        return mask.default.value is None
    return isinstance(mask, Unknown) and mask.default is None


def _too_late(event: Event, severity: Severity, first: Place | None) -> Draft:
    sure = severity is Severity.ERROR
    return Draft(
        "DDP205",
        event.place,
        "CUDA_VISIBLE_DEVICES is written after CUDA "
        + ("has started: it is not read again" if sure else "was asked for its devices"),
        severity,
        behaviour="every rank still sees all GPUs"
        + ("" if sure else " wherever that question has already started the driver"),
        symptom="cuda:0 is the same GPU on every rank: out of memory there, or NCCL's duplicate "
        "GPU",
        repair="write it before torch is imported, or leave it alone and call "
        "torch.cuda.set_device(local_rank)",
        related=((first, "CUDA is used here already"),) if first is not None else (),
    )


def _rank_variables(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("variable"):
        if not trace.is_distributed(event):
            continue
        group = trace.alternatives(event, event.state.group)
        is_open = not any(isinstance(g, Const) and g.value is None for g in group)
        # Before the group is open, a variable is often filled from those of another launcher.
        if is_open and _is_another_number(trace, event):
            yield Draft(
                "DDP205",
                event.place,
                f"{event.name} is written after the process group was opened from it",
                behaviour="what was read before keeps the old value on every rank",
                symptom="ranks on the wrong GPU, although the variable looks right in the log",
                repair=f"write {event.name} before anything reads it",
            )


def _is_another_number(trace: Trace, event: Event) -> bool:
    """Whether what is written is surely not what the launcher had set."""
    written = trace.alternatives(event, event.detail["value"])
    given = event.detail["given"]
    return isinstance(given, Index) and all(
        isinstance(value, Index) and value.exact and value.role is not given.role
        for value in written
    )
