"""DDP203: the global rank is used as a GPU index, which only fits the first machine."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.rewrites import write_local_rank
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Device, Index, Place, Role, Value
from ddpdoctor.lint.wrapping import named_devices


def check(trace: Trace) -> Iterator[Draft]:
    seen: set[Place] = set()
    for event in trace.events:
        if not trace.is_distributed(event, numbered=True) or trace.is_isolated(event):
            continue
        wrong = next((v for v in named_devices(event) if _is_global(trace, event, v)), None)
        if wrong is None or _is_current(trace, event, wrong):
            continue  # of the current device it is the binding that has to change
        device = trace.alternatives(event, wrong)[0]
        place = _written(device) or event.place
        if place in seen:
            continue
        seen.add(place)
        yield Draft(
            "DDP203",
            place,
            "the global rank is used as a GPU index; a machine's GPUs are numbered by local rank",
            Severity.WARNING,
            behaviour="on the second machine of 8 GPUs rank 8 asks for cuda:8, which is not there",
            symptom='"CUDA error: invalid device ordinal" on every machine after the first; '
            "right only while the job runs on one machine",
            repair="use int(os.environ['LOCAL_RANK']), or rank % torch.cuda.device_count()",
            related=((event.place, "takes effect here"),) if place != event.place else (),
            fix=write_local_rank(trace, event, device),
        )


def _written(device: Value) -> Place | None:
    """Where the index became a device: one line for all the places that the device is used."""
    if isinstance(device, Device) and device.index is not None:
        return device.origin if device.origin != device.index.origin else None
    return None


def _is_current(trace: Trace, event: Event, value: Value) -> bool:
    """Whether an event takes over the device that the process is bound to: current_device(), or
    the device of a tensor or module that is there."""
    asked = {query.place for query in trace.of("current")}
    given = trace.alternatives(event, event.detail.get("given"))
    followed = bool(given) and all(isinstance(d, Device) and d.origin is None for d in given)
    written = [value.origin]
    if isinstance(value, Device) and value.index is not None:
        written.append(value.index.origin)
    return not asked.isdisjoint(written) or (followed and event.kind != "bind")


def _is_global(trace: Trace, event: Event, value: Value) -> bool:
    leaves = trace.alternatives(event, value)
    indices = [
        index
        for leaf in leaves
        for index in (trace.alternatives(event, leaf.index) if isinstance(leaf, Device) else [leaf])
    ]
    return bool(indices) and all(
        isinstance(index, Index) and index.role is Role.GLOBAL for index in indices
    )
