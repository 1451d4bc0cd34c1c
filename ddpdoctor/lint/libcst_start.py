"""The start of libcst, which takes longer than anything else for a single script."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any


def import_libcst() -> None:
    """Imports libcst in four fifths of the usual time, with the same result.

    libcst 1.9 puts its own __repr__ and __eq__ into each of its 250 node classes to keep
    dataclasses from adding some (CSTNode.__init_subclass__). Until Python 3.12, dataclasses
    nevertheless compiles them, and throws them away.
    """
    if "libcst" in sys.modules:
        return
    usual: Any = dataclasses.dataclass

    def without_waste(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: without_waste(cls, **options)
        if {"__repr__", "__eq__", "__hash__"} <= cls.__dict__.keys():
            options.update(repr=False, eq=False)
        return usual(cls, **options)

    dataclasses.dataclass = without_waste
    try:
        import libcst  # noqa: F401
    finally:
        dataclasses.dataclass = usual
