"""Random numbers: one generator a device, apart from the CPU's, as in CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from ddpdoctor.virtual.patches import Patches
from ddpdoctor.virtual.process import Process

# c10/core/GeneratorImpl.h: what a generator is seeded with until somebody seeds it.
_DEFAULT_SEED = 67280421310721


class DeviceGenerator(torch._C.Generator):
    """A CPU generator that says it belongs to a CUDA device. Offsets, which only CUDA's have, stay
    0.
    """

    _index: int

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self._index)

    def get_offset(self) -> int:
        return 0

    def set_offset(self, offset: int) -> DeviceGenerator:
        return self


class Generators:
    """The devices' default generators, made when CUDA starts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._made: list[DeviceGenerator] = []

    def all(self) -> list[DeviceGenerator]:
        while len(self._made) < len(self._process.devices()):
            generator = DeviceGenerator()
            generator.manual_seed(_DEFAULT_SEED)
            generator._index = len(self._made)
            self._made.append(generator)
        return self._made

    def lent(self, index: int) -> AbstractContextManager[None]:
        """While it lasts, the CPU's default generator, which kernels draw from, is the device's."""
        return _lent(self.all()[index])


@contextmanager
def _lent(generator: torch.Generator) -> Iterator[None]:
    default = torch.default_generator
    kept = default.get_state()
    default.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(default.get_state())
        default.set_state(kept)


class _DefaultGenerators:
    """torch.cuda.default_generators: a sequence that is filled when CUDA starts."""

    def __init__(self, generators: Generators) -> None:
        self._generators = generators

    def __getitem__(self, index: int) -> DeviceGenerator:
        return self._generators.all()[index]

    def __len__(self) -> int:
        return len(self._generators.all())


def install(process: Process, patches: Patches) -> Generators:
    generators = Generators(process)
    patches.set(torch.cuda, "default_generators", _DefaultGenerators(generators))
    real: Callable[..., torch.Generator] = torch.Generator

    class _Constructor(type):
        """torch.Generator stays a class (isinstance, annotations) whose calls choose the device."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torch._C.Generator)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, torch._C.Generator)

        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            wanted = (
                torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
            )
            if wanted.type != "cuda":
                return real(wanted)
            process.initialize()
            generator = DeviceGenerator()
            generator.manual_seed(_DEFAULT_SEED)
            generator._index = process.current if wanted.index is None else wanted.index
            process.check_index(generator._index)
            return generator

    patches.set(torch, "Generator", _Constructor("Generator", (), {"__module__": "torch"}))
    return generators
