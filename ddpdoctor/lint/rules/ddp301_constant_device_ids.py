"""DDP301: DistributedDataParallel gets a constant device_ids or output_device."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.operators import subscript
from ddpdoctor.lint.rewrites import write_index
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Place, Sequence, Unknown, Value


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("wrap"):
        if not trace.is_distributed(event) or trace.is_isolated(event):
            continue
        for name in ("device_ids", "output_device"):
            constant = _constant(trace, event, event.detail[name])
            if constant is None:
                continue
            option = constant.given if isinstance(constant, Unknown) else None
            written = event.place if option else constant.origin or event.place
            related: tuple[tuple[Place, str], ...] = ()
            if written != event.place:
                related = ((event.place, "wrapped here"),)
            number = constant.default if isinstance(constant, Unknown) else constant
            yield Draft(
                "DDP301",
                written,
                f"{name} is {getattr(number, 'value', 0)} on every rank"
                + (f", the default of {option}" if option else ""),
                Severity.WARNING if option else Severity.ERROR,
                behaviour=f"every rank runs its replica on cuda:{getattr(number, 'value', 0)}",
                symptom="NCCL hangs or reports a duplicate GPU; one GPU at 100 %, the rest idle",
                repair=f"{name}=[local_rank]" if name == "device_ids" else f"{name}=local_rank",
                related=related,
                fix=write_index(
                    trace,
                    event,
                    constant.origin or event.place,
                    safe=getattr(number, "value", None) == 0
                    and trace.constant_index(event, event.device) is None,
                ),
            )
            break  # output_device has the same cause


def _constant(trace: Trace, event: Event, value: Value | None) -> Value | None:
    """The index that an argument has on every path, if it is a constant on each."""
    found = [_number(trace, event, leaf) for leaf in trace.alternatives(event, value)]
    return found[0] if found and None not in found else None


def _number(trace: Trace, event: Event, value: Value) -> Value | None:
    if isinstance(value, Sequence):
        if len(value.items) != 1 or (value.open and value.given is None):
            return None
        value = subscript(value, Const(0), event.path)
    return trace.constant_index(event, as_device(value, event.path))
