"""Turning virtual GPUs on in this process, and off again."""

from __future__ import annotations

import torch

from ddpdoctor.virtual import (
    autocast,
    batch_norm,
    buckets,
    composites,
    creation,
    cuda_api,
    data_parallel,
    device_type,
    distributed,
    legacy_types,
    moving,
    random_state,
    refusals,
    storages,
    threads,
)
from ddpdoctor.virtual.devices import Machine
from ddpdoctor.virtual.labels import Labels
from ddpdoctor.virtual.mode import PlacementMode, Placer
from ddpdoctor.virtual.patches import Patches
from ddpdoctor.virtual.process import Process

_on: list[tuple[Patches, PlacementMode]] = []


def switch_on(machine: Machine) -> None:
    """This thread and all threads started from now on see the machine's GPUs.

    Raises RuntimeError where they are on already.
    """
    if _on:
        raise RuntimeError("virtual GPUs are on already in this process")
    process = Process(machine, torch.cuda._lazy_init)
    placer = Placer(Labels(process))
    patches = Patches()
    cuda_api.install(process, patches)
    placer.generators = random_state.install(process, patches).lent
    creation.install(placer, patches)
    moving.install(placer, patches)
    legacy_types.install(placer, patches)
    storages.install(placer, patches)
    autocast.install(patches)
    composites.install(placer, patches)
    for part in (device_type, data_parallel, batch_norm, refusals):
        part.install(patches)
    distributed.install(placer, patches)
    buckets.install(placer, patches)
    threads.install(placer, patches)
    mode = PlacementMode(placer)
    mode.__enter__()  # type: ignore[no-untyped-call]
    _on.append((patches, mode))


def switch_off() -> None:
    """Puts torch back as it was, in the thread that switched on."""
    patches, mode = _on.pop()
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    patches.undo()
