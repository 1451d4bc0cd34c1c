"""Virtual GPUs: N CUDA devices on a machine that has none. Importing this package imports no torch."""

from __future__ import annotations

from ddpdoctor.virtual.environment import environment
from ddpdoctor.virtual.inprocess import gpus
from ddpdoctor.virtual.observers import on_context, on_mismatch

__all__ = ["environment", "gpus", "on_context", "on_mismatch"]
