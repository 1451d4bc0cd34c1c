"""What a program makes of a checkpoint: its parts, and the dictionaries that they are put into."""

from __future__ import annotations

from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import Const, Dict, Object, Place, Sequence, Unknown, Value


def load_of(run: Run, value: Value | None) -> Const | None:
    """The "load" event that a value comes from, or that something in it does."""
    return None if value is None else _load_in(run, value, set())


def keep(run: Run, container: Value, value: Value | None) -> None:
    """Notes a part of a checkpoint, or a dictionary of parts, that comes into a dictionary."""
    load = load_of(run, value)
    if load is None:
        return
    if isinstance(container, Dict):
        container.loaded = Object(None, {"#load": load}, load.origin)
    elif isinstance(container, Object):
        run.heap.write(container.attributes, "#load", load)


def use(run: Run, value: Value | None, place: Place) -> None:
    """Notes a value that is copied into a model."""
    load = load_of(run, value)
    if load is not None:
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


def _load_in(run: Run, value: Value, seen: set[int]) -> Const | None:
    """seen: the dictionaries that were looked into, since one can hold itself."""
    value = resolve(value, run.path)
    if isinstance(value, Object):
        event = resolve(value.attributes.get("#load", Unknown()), run.path)
        return event if isinstance(event, Const) else None
    if isinstance(value, Dict) and id(value) not in seen:
        seen.add(id(value))
        for held in (value.loaded, *value.entries.values()):
            load = None if held is None else _load_in(run, held, seen)
            if load is not None:
                return load
    return None


# Of tensors and texts: numbers and truths.
_FACTS = frozenset(
    {"size", "dim", "numel", "nelement", "ndimension", "item", "tolist", "equal"}
    | {"startswith", "endswith"}
)
