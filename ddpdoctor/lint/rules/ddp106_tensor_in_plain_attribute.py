"""DDP106: a module keeps a tensor where module.to() does not find it, and then computes with it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.devices import is_cpu, is_cuda
from ddpdoctor.lint.placements import register_buffer
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.tensors import making
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Object, Place


def check(trace: Trace) -> Iterator[Draft]:
    kept = {id(event.detail["value"]): event for event in trace.of("keep")}
    reported: set[Place] = set()
    for event in trace.of("meet"):
        if not trace.is_distributed(event, surely=False):
            continue
        left_owner, right_owner = event.detail["owners"]
        for value, owner, at, other in (
            (event.detail["left"], left_owner, event.device, event.detail["other"]),
            (event.detail["right"], right_owner, event.detail["other"], event.device),
        ):
            keep = kept.get(id(value)) or kept.get(id(owner)) or _made_of(value)
            if keep is None or keep.place in reported:
                continue
            if not (is_cpu(at) and is_cuda(other)) or _is_scalar(value):
                continue
            if making(value) is not None:
                continue  # DDP105: a buffer would not help
            reported.add(keep.place)
            yield Draft(
                "DDP106",
                keep.place,
                f"{keep.detail['what']} is kept in a plain attribute, so it stays behind when the "
                "module moves to the GPU",
                behaviour="the module's parameters are on the rank's GPU, this stays on the CPU",
                symptom='"Expected all tensors to be on the same device, but found at least two '
                'devices, cuda:0 and cpu!"',
                repair=keep.detail["instead"],
                related=((event.place, "meets a tensor on the GPU here"),),
                fix=register_buffer(keep),
            )


def _made_of(value: object) -> Event | None:
    """The keeping of the tensor that a value was computed from without any other tensor."""
    mark = value.attributes.get("#kept") if isinstance(value, Object) else None
    return mark.value if isinstance(mark, Const) else None


def _is_scalar(value: object) -> bool:
    return isinstance(value, Object) and "#scalar" in value.attributes
