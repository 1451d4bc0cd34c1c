"""DDP304: device_ids for a module that is on the CPU, or on several GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.placements import move_and_wrap, without_device_ids
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Device, Value, same
from ddpdoctor.lint.wrapping import first_device_id


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("wrap"):
        if first_device_id(event) is None or not trace.is_distributed(event):
            continue
        parts = event.detail["parts"]
        places = [*trace.alternatives(event, event.device), *parts]
        on_cpu = all(isinstance(p, Device) and p.kind == "cpu" for p in places)
        spread = _is_spread(parts)
        if not on_cpu and not spread:
            continue
        where = "still on the CPU" if on_cpu else "spread over several GPUs"
        yield Draft(
            "DDP304",
            event.place,
            f"device_ids is given, but the module is {where}",
            behaviour="DistributedDataParallel refuses such a module on every rank",
            symptom='"DistributedDataParallel device_ids and output_device arguments only work '
            'with single-device/multiple-device GPU modules or CPU modules"',
            repair="move the module to its GPU before wrapping it"
            if on_cpu
            else "leave device_ids and output_device out",
            fix=move_and_wrap(trace, event) if on_cpu else without_device_ids(event),
        )


def _is_spread(parts: tuple[Value, ...]) -> bool:
    """Whether two parts of a module are on GPUs with different indices."""
    indices = [
        device.index
        for device in parts
        if isinstance(device, Device) and device.kind == "cuda" and device.index is not None
    ]
    return not all(same(indices[0], other) for other in indices[1:])
