"""Acting right after a module has been imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class AfterImport(importlib.abc.MetaPathFinder):
    """Lets the other finders find the module, and calls back once its body has run. For
    sys.meta_path.
    """

    def __init__(self, module: str, action: Callable[[ModuleType], None]) -> None:
        self._module = module
        self._action = action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
