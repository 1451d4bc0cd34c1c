"""Runs at the start of every Python process that has this folder on PYTHONPATH (see environment.py).

It makes ddpdoctor importable, whatever interpreter this is, and calls it back right after
`import torch`; then it runs the sitecustomize that it shadows.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))


class _DdpdoctorFinder(importlib.abc.MetaPathFinder):
    """Finds ddpdoctor where it lies, and nothing else of the folder that it lies in."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "ddpdoctor":
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
        )


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Lets the other finders find torch, and calls back when its module body has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            loader.exec_module = _then(loader.exec_module)  # type: ignore[method-assign]
        return spec


def _then(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        from ddpdoctor.virtual.started import after_torch

        after_torch()

    return exec_module


def _run_shadowed() -> None:
    """Runs the sitecustomize that stands behind this one on sys.path, as if it were the only one."""
    rest = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _TorchFinder())
sys.meta_path.append(_DdpdoctorFinder())
_run_shadowed()
