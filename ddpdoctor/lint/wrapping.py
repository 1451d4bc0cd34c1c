"""What the device arguments of a wrapped module say, for the rules about wrapping."""

from __future__ import annotations

from ddpdoctor.lint.trace import Event
from ddpdoctor.lint.values import Sequence, Value


def first_device_id(event: Event) -> Value | None:
    """device_ids[0] of a "wrap" event, None where there is none or it is not known."""
    ids = event.detail["device_ids"]
    if isinstance(ids, Sequence) and ids.items and not ids.open:
        return ids.items[0]
    return None
