"""Replacing attributes of torch, and putting everything back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Attributes replaced so far. undo() restores them, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces owner.name and returns what it was (None where it was not there)."""
        # An inherited attribute (TensorBase's, seen through Tensor) is shadowed and uncovered
        # again.
        own = vars(owner).get(name, _MISSING)
        original = getattr(owner, name, None)
        setattr(owner, name, value)
        if own is _MISSING:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, own))
        return original

    def then(self, action: Callable[[], object]) -> None:
        """Remembers an action for undo()."""
        self._undo.append(lambda: (action(), None)[1])

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
