"""Virtual GPUs: N CUDA devices on a machine that has none.

Importing this package imports no torch, and what it offers only when it is asked for: every process
of a virtual run goes through here before its own code starts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddpdoctor.virtual.environment import environment
    from ddpdoctor.virtual.inprocess import gpus
    from ddpdoctor.virtual.observers import on_context, on_mismatch

__all__ = ["environment", "gpus", "on_context", "on_mismatch"]

_HOMES = {
    "environment": "environment",
    "gpus": "inprocess",
    "on_context": "observers",
    "on_mismatch": "observers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
