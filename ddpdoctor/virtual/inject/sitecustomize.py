"""Runs at the start of every Python process that has this folder on PYTHONPATH.

It makes ddpdoctor importable, whatever interpreter this is, and calls it back right after
`import torch` (see environment.py and started.py); then it runs the sitecustomize that it shadows.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
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


def _torch_imported(_: ModuleType) -> None:
    from ddpdoctor.virtual.started import after_torch

    after_torch()


def _run_shadowed() -> None:
    """Runs the sitecustomize that stands behind this one on sys.path, as if it were alone."""
    rest = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.append(_DdpdoctorFinder())
from ddpdoctor.virtual.imports import AfterImport  # noqa: E402

sys.meta_path.insert(0, AfterImport("torch", _torch_imported))
_run_shadowed()
