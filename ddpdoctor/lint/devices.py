"""From the arguments that programs write ("cuda:0", 3, torch.device(...)) to devices."""

from __future__ import annotations

from ddpdoctor.lint.paths import Path, leaves, map_value
from ddpdoctor.lint.values import (
    Const,
    Device,
    Index,
    Name,
    Object,
    Text,
    Unknown,
    Value,
)

NO_DEVICE = Const(None)

# torch's device types that hold memory of their own and have ranks; "cuda" also means ROCm.
_ACCELERATORS = ("cuda",)


def as_device(value: Value, path: Path) -> Value:
    """The device a value means: Device, Const(None) for none, else Unknown; either-ors kept."""
    return map_value(value, path, _as_device)


def _as_device(value: Value) -> Value:
    if isinstance(value, Device):
        return value
    if isinstance(value, Const):
        return _constant(value)
    if isinstance(value, Index):
        return Device("cuda", value, value.origin)
    if isinstance(value, Text):
        return _text(value)
    if isinstance(value, Object):
        held = value.attributes.get("#device")
        return held if isinstance(held, Device) else Unknown()
    if isinstance(value, Unknown) and value.default is not None:
        return _option(value, _as_device(value.default))
    return Unknown(("device", value.key)) if isinstance(value, Unknown) else Unknown()


def _constant(value: Const) -> Value:
    if value.value is None:
        return NO_DEVICE
    if isinstance(value.value, bool):
        return Unknown()
    if isinstance(value.value, int):
        return Device("cuda", value, value.origin)
    if isinstance(value.value, str):
        kind, colon, index = value.value.partition(":")
        if kind == "gpu":
            kind = "cuda"
        if not colon:
            return Device(kind, None, value.origin) if kind.isidentifier() else Unknown()
        if index.isdigit():
            return Device(kind, Const(int(index), value.origin), value.origin)
    return Unknown()


def _text(value: Text) -> Value:
    first = value.parts[0]
    if first == "cuda:" and len(value.parts) == 2 and isinstance(value.parts[1], Value):
        return Device("cuda", value.parts[1], value.origin)
    if isinstance(first, str) and first.startswith("cpu"):
        return Device("cpu", None, value.origin)
    return Unknown()


def _option(option: Unknown, default: Value) -> Value:
    """The device of a command-line option: its default, marked as one that a user can change."""
    if isinstance(default, Device) and default.kind in _ACCELERATORS:
        if default.index is None:
            return default
        index = Unknown(
            ("index", option.key),
            default=default.index,
            given=option.given,
            origin=option.origin or default.origin,
        )
        return Device("cuda", index, option.origin or default.origin)
    return Unknown(("device", option.key))


def is_cuda(device: object) -> bool:
    return isinstance(device, Device) and device.kind in _ACCELERATORS


def may_be_cuda(device: Value, path: Path) -> bool:
    """Whether it is CUDA's in some run of the path."""
    return any(is_cuda(leaf) for leaf, _ in leaves(device, path))


def is_cpu(device: object) -> bool:
    return isinstance(device, Device) and device.kind == "cpu"


def is_dtype(value: Value) -> bool:
    """Whether an argument of .to() is a dtype or memory format, which moves nothing."""
    return isinstance(value, Name) and value.name.startswith("torch.") and value.name != "torch"
