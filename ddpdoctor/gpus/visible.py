"""What a process sees as cuda:0, cuda:1, …: CUDA_VISIBLE_DEVICES against the machine's GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.gpus.snapshot import Gpu

_ORDER_UNKNOWN = (
    "the GPUs are not all alike and CUDA_DEVICE_ORDER is not PCI_BUS_ID, so CUDA numbers the "
    "fastest first and which GPU is cuda:0 is a guess; set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


@dataclass(frozen=True)
class VisibleDevices:
    """uuids: of the GPUs (or MIG instances) by CUDA device index. note: what is guessed."""

    uuids: tuple[str, ...]
    note: str | None = None


def visible_devices(environ: Mapping[str, str], gpus: Sequence[Gpu]) -> VisibleDevices:
    """The devices of a process with that environment on a machine with those GPUs, in NVML's order.

    The rules are CUDA's (CUDA programming guide, "CUDA environment variables"), and torch's own
    parser in torch/cuda/__init__.py follows the same: an entry that names no device ends the list,
    a device named twice empties it, an unset variable shows all, an empty one none.
    """
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    # With CUDA_DEVICE_ORDER=PCI_BUS_ID a number is NVML's index. Without it CUDA puts the fastest
    # first, which NVML cannot tell; equal GPUs stay in PCI order.
    whole = _whole_gpus(gpus)
    alike = len({card[0].name for card in whole} - {""}) <= 1
    guessed = environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and not alike
    if mask is None:
        # CUDA shows at most one MIG instance to a process, and only where there is no whole GPU
        # (MIG user guide, "CUDA visible devices").
        cards = [card[0].uuid for card in whole if card[0].mig is None]
        cards = cards or [gpu.uuid for gpu in gpus[:1]]
        return VisibleDevices(tuple(cards), _ORDER_UNKNOWN if guessed else None)
    seen: list[str] = []
    numbered = False
    for entry in mask.split(","):
        gpu = _named(entry.strip(), gpus, whole)
        if gpu is None:
            break
        if gpu.uuid in seen:
            return VisibleDevices(())
        numbered = numbered or not entry.strip().startswith(("GPU-", "MIG-"))
        seen.append(gpu.uuid)
    return VisibleDevices(tuple(seen), _ORDER_UNKNOWN if guessed and numbered else None)


def _whole_gpus(gpus: Sequence[Gpu]) -> list[list[Gpu]]:
    """A list a physical GPU: itself, or its MIG instances."""
    cards: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        cards.setdefault(gpu.mig.parent_uuid if gpu.mig else gpu.uuid, []).append(gpu)
    return list(cards.values())


def _named(entry: str, gpus: Sequence[Gpu], whole: Sequence[Sequence[Gpu]]) -> Gpu | None:
    if entry.startswith("MIG-"):
        named = [gpu for gpu in gpus if entry in _mig_names(gpu)]
        return named[0] if named else None
    if entry.startswith("GPU-"):
        # A shortened UUID counts if it fits one GPU; with MIG on, a GPU's name means an instance.
        cards = [
            c for c in whole if (c[0].mig.parent_uuid if c[0].mig else c[0].uuid).startswith(entry)
        ]
        return cards[0][0] if len(cards) == 1 else None
    # CUDA reads numbers as strtoul does: "1gpu" is 1, and "-1" names no device.
    number = re.match(r"\+?(\d+)", entry)
    if number is None or int(number[1]) >= len(whole):
        return None
    return whole[int(number[1])][0]


def _mig_names(gpu: Gpu) -> tuple[str, ...]:
    """MIG-<uuid>, and MIG-<GPU uuid>/<GPU instance>/<compute instance> as before driver 470."""
    if gpu.mig is None:
        return ()
    mig = gpu.mig
    return gpu.uuid, f"MIG-{mig.parent_uuid}/{mig.gpu_instance}/{mig.compute_instance}"
