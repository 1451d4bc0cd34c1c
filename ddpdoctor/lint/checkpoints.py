"""What a program makes of a checkpoint: its parts, and the dictionaries that they are put into."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.paths import leaves
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    MISSING,
    Const,
    Dict,
    Object,
    Part,
    Place,
    Sequence,
    Unknown,
    Value,
)


def load_of(run: Run, value: Value | None) -> Const | None:
    """The "load" event that a value comes from, or that something in it does."""
    return None if value is None else next(_loads_in(run, value, set()), None)


def keep(run: Run, container: Value, value: Value | None) -> None:
    """Notes a part of a checkpoint, or a dictionary of parts, that comes into a dictionary."""
    load = load_of(run, value)
    if load is None:
        return
    if isinstance(container, Dict):
        run.heap.write(container.cell, "loaded", Object(None, {"#load": load}, load.origin))
    elif isinstance(container, Object):
        run.heap.write(container.attributes, "#load", load)


def use(run: Run, value: Value | None, place: Place) -> None:
    """Notes a value that is copied into a model."""
    if value is not None:
        for load in _loads_in(run, value, set()):
            load.value.detail["used"].append(place)


def part(loaded: Object, method: str) -> Value:
    """What a method of a checkpoint, or of a part of it, gives: another part, as a rule."""
    if method in _FACTS or method.startswith("is_"):
        return Unknown()
    if method == "keys":
        return Sequence((), open=True)
    if method == "items":
        return Sequence((Sequence((Unknown(), loaded), "tuple"),), open=True)
    if method == "values":
        return Sequence((loaded,), open=True)
    return loaded


def _loads_in(run: Run, value: Value, seen: set[int]) -> Iterator[Const]:
    """seen: the dictionaries that were looked into, since one can hold itself."""
    for leaf, _ in leaves(value, run.path):
        if isinstance(leaf, Object):
            held = leaf.attributes.get("#load", MISSING)
            yield from (load for load, _ in leaves(held, run.path) if isinstance(load, Const))
        elif isinstance(leaf, Part):
            yield leaf.load
        elif isinstance(leaf, Dict) and id(leaf) not in seen:
            seen.add(id(leaf))
            for part in (leaf.loaded, *leaf.entries.values()):
                yield from _loads_in(run, part, seen)


# Of tensors and texts: numbers and truths.
_FACTS = frozenset(
    {"size", "dim", "numel", "nelement", "ndimension", "item", "tolist", "equal"}
    | {"startswith", "endswith"}
)
