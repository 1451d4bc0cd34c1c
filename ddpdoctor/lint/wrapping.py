"""What the device arguments of an event say, for the rules that compare them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.trace import Event, at_defaults
from ddpdoctor.lint.values import Dict, Sequence, Value


def first_device_id(event: Event) -> Value | None:
    """device_ids[0] of a "wrap" event, None where there is none or it is not known."""
    ids = event.detail["device_ids"]
    if isinstance(ids, Sequence) and ids.items and not ids.open:
        return ids.items[0]
    return None


def named_devices(event: Event) -> Iterator[Value]:
    """Every device or index that an event is given: its own, device_ids and output_device, those
    of a device_map."""
    if event.device is not None and event.kind in (
        "place",
        "create",
        "default",
        "load",
        "bind",
        "context",
        "group",
        "shard",
    ):
        yield event.device
    if event.kind == "device_map":
        targets = at_defaults(event.detail["map"], event.path)
        entries = targets.entries.values() if isinstance(targets, Dict) else (targets,)
        yield from (as_device(target, event.path) for target in entries)
    for name in ("device_ids", "output_device"):
        value = event.detail.get(name)
        if isinstance(value, Sequence):
            yield from value.items
        elif value is not None:
            yield value
