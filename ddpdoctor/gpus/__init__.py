"""Who is on which GPU: one small interface over NVML and over the virtual GPUs' ledger."""

from __future__ import annotations

from ddpdoctor.gpus.snapshot import Gpu, GpuProcess, GpuSource, MigInstance, Snapshot

__all__ = ["Gpu", "GpuProcess", "GpuSource", "MigInstance", "Snapshot"]
