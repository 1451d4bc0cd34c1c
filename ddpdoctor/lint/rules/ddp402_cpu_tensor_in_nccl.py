"""DDP402: a tensor on the CPU in a collective of NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.devices import is_cpu
from ddpdoctor.lint.placements import on_gpu
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import DEFAULT_BACKEND, Event, Trace
from ddpdoctor.lint.values import Const, Unknown, Value


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("collective"):
        given = _on_cpu(trace, event, event.device)
        if not given and not any(_on_cpu(trace, event, each) for each in event.detail["listed"]):
            continue
        backends = {_name(leaf) for leaf in trace.alternatives(event, event.state.group)}
        by_default = DEFAULT_BACKEND in backends
        if not backends or not backends <= {"nccl", DEFAULT_BACKEND}:
            continue
        if by_default and not _has_gpu(trace, event):
            continue
        if not trace.is_distributed(event) or trace.goes_through_cpu(event):
            continue
        yield Draft(
            "DDP402",
            event.place,
            "the tensor is on the CPU, and NCCL only sends tensors on a GPU",
            Severity.WARNING if by_default else Severity.ERROR,
            behaviour="every rank gets to this call with a CPU tensor"
            + (", and a group without a named backend is NCCL's alone on a GPU" * by_default),
            symptom='"No backend type associated with device type cpu"',
            repair="make the tensor on the rank's GPU, or open the group with "
            'backend="cpu:gloo,cuda:nccl"',
            fix=on_gpu(trace, event, event.detail["tensor"]) if given else None,
        )


def _name(leaf: Value) -> object:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        leaf = leaf.default
    return leaf.value if isinstance(leaf, Const) else None


def _has_gpu(trace: Trace, event: Event) -> bool:
    """Whether the rank has used its GPU or chosen one; on the CPU alone the default is gloo."""
    return trace.binding(event) in ("bound", "constant") or trace.has_started(event)


def _on_cpu(trace: Trace, event: Event, device: Value | None) -> bool:
    leaves = trace.alternatives(event, device)
    return bool(leaves) and all(map(is_cpu, leaves))
