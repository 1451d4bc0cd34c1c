"""DDP402: a tensor on the CPU in a collective of NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.devices import is_cpu
from ddpdoctor.lint.placements import on_gpu
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Value


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("collective"):
        given = _on_cpu(trace, event, event.device)
        if not given and not any(_on_cpu(trace, event, each) for each in event.detail["listed"]):
            continue
        backends = trace.alternatives(event, event.state.group)
        if not backends or not all(isinstance(b, Const) and b.value == "nccl" for b in backends):
            continue
        if not trace.is_distributed(event) or trace.goes_through_cpu(event):
            continue
        yield Draft(
            "DDP402",
            event.place,
            "the tensor is on the CPU, and NCCL only sends tensors on a GPU",
            behaviour="every rank gets to this call with a CPU tensor",
            symptom='"No backend type associated with device type cpu"',
            repair="make the tensor on the rank's GPU, or open the group without naming a backend",
            fix=on_gpu(trace, event, event.detail["tensor"]) if given else None,
        )


def _on_cpu(trace: Trace, event: Event, device: Value | None) -> bool:
    leaves = trace.alternatives(event, device)
    return bool(leaves) and all(map(is_cpu, leaves))
