"""A ProbeRun as JSON and back, to hand it from one node to another."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from ddpdoctor.probe.results import ProbeRun


def encode(run: ProbeRun) -> bytes:
    return json.dumps(_plain(run)).encode()


def decode(packed: bytes) -> ProbeRun:
    """Raises ValueError, TypeError or KeyError where the bytes are no run."""
    run = _typed(json.loads(packed), ProbeRun)
    assert isinstance(run, ProbeRun)
    return run


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _typed(value: Any, wanted: Any) -> Any:
    """The plain value as the dataclasses' annotation wants it."""
    if get_origin(wanted) in (Union, types.UnionType):
        if value is None:
            return None
        return _typed(value, next(one for one in get_args(wanted) if one is not type(None)))
    if get_origin(wanted) is tuple:
        kinds = get_args(wanted)
        if kinds[-1] is Ellipsis:
            return tuple(_typed(item, kinds[0]) for item in value)
        return tuple(_typed(item, kind) for item, kind in zip(value, kinds, strict=True))
    if is_dataclass(wanted):
        assert isinstance(wanted, type)
        return wanted(**_fields(value, get_type_hints(wanted)))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted(value)
    if wanted is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r} where {wanted.__name__} is expected")
    return value


def _fields(value: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _typed(value[name], hint) for name, hint in hints.items()}
