"""torch.device(0): an integer alone means the accelerator, which a CPU build of torch has not."""

from __future__ import annotations

from typing import Any

import torch

from ddpdoctor.virtual.patches import Patches


def install(patches: Patches) -> None:
    # torch.device is a C type that takes no subclass and no new attribute; its name in torch is
    # given to a class that stands for it in isinstance and annotations, and makes real devices.
    real = torch.device

    class _Constructor(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, real)

        def __eq__(cls, other: object) -> bool:
            return other is cls or other is real

        def __hash__(cls) -> int:
            return hash(real)

        def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
            values = [*args, *kwargs.values()]
            if len(values) == 1 and isinstance(values[0], int):
                return real("cuda", values[0])
            return real(*args, **kwargs)

    patches.set(torch, "device", _Constructor("device", (), {"__module__": "torch"}))
