"""The start of libcst, which takes longer than anything else for a single script."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PROVIDERS = "libcst.metadata"


def import_libcst() -> None:
    """Imports libcst in three fifths of the usual time, with the same result."""
    if "libcst" in sys.modules:
        return
    with _quick_dataclasses():
        try:
            with _without_providers():
                import libcst
        except ImportError:  # another version, which needs more of the package
            import libcst  # noqa: F401


@contextmanager
def _quick_dataclasses() -> Iterator[None]:
    """libcst 1.9 has 200 frozen dataclasses, whose methods dataclasses compiles.

    - libcst puts its own __repr__ and __eq__ into each class to keep dataclasses from adding some
      (CSTNode.__init_subclass__). They are compiled nevertheless, and thrown away.
    - What forbids assignments could be the same function in each class, as it is here. Until
      Python 3.12 each of them is compiled by itself.
    """
    usual: Any = dataclasses.dataclass
    one_by_one = sys.version_info < (3, 13)
    compiled = getattr(dataclasses, "_frozen_get_del_attr", None) if one_by_one else None

    def without_waste(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: without_waste(cls, **options)
        if {"__repr__", "__eq__", "__hash__"} <= cls.__dict__.keys():
            options.update(repr=False, eq=False)
        return usual(cls, **options)

    dataclasses.dataclass = without_waste
    if compiled is not None:
        dataclasses._frozen_get_del_attr = _frozen  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dataclasses.dataclass = usual
        if compiled is not None:
            dataclasses._frozen_get_del_attr = compiled  # type: ignore[attr-defined]


def _frozen(
    cls: Any, fields: list[dataclasses.Field[Any]], namespace: dict[str, Any]
) -> tuple[Callable[..., None], Callable[..., None]]:
    """What dataclasses of Python 3.10 to 3.12 puts into a frozen class."""
    names = frozenset(field.name for field in fields)

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


@contextmanager
def _without_providers() -> Iterator[None]:
    """libcst imports two modules of libcst.metadata, whose package imports all its providers and
    with them subprocess and more. We use none; whoever asks for the package later gets it whole."""
    spec = find_spec("libcst")
    folders = spec.submodule_search_locations if spec else None
    package = ModuleType(_PROVIDERS)
    package.__path__ = [f"{folder}/metadata" for folder in folders or ()]
    sys.modules[_PROVIDERS] = package
    try:
        yield
    finally:
        del sys.modules[_PROVIDERS]
