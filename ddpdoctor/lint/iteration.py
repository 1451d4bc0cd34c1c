"""What a loop takes from a value: the items of sequences, dictionaries and objects."""

from __future__ import annotations

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.nn_modules import modules_in
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensor_operations import take
from ddpdoctor.lint.tensors import kind_of
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    Index,
    Method,
    Object,
    Sequence,
    Unknown,
    Value,
    loop_number,
    tuple_items,
)

# Comprehensions and loops over this many known items are run item by item.
MOST_ITEMS = 12
_MOST_NAMED = 128  # of a dictionary or namespace: programs copy their options in a loop


def items_of(run: Run, iterated: Value) -> tuple[tuple[Value, ...], bool]:
    """The items that a loop over a value takes, and whether these are all of them.

    One unknown item stands for those that are not known.
    """
    iterated = resolve(iterated, run.path)
    if isinstance(iterated, Sequence):
        if len(iterated.items) <= MOST_ITEMS and not iterated.open:
            return iterated.items, True
        if iterated.items and all(map(_is_named, iterated.items)):
            return _named_items(iterated.items, iterated.open)
        return _different(iterated.items), False
    if isinstance(iterated, Dict):
        return _named_items(tuple(Const(key) for key in iterated.entries), iterated.open)
    if isinstance(iterated, Object):
        return _items_of_object(run, iterated)
    return (Unknown(),), False


def items_by_default(run: Run, iterated: Value) -> tuple[tuple[Value, ...], bool]:
    """What [int(gpu) for gpu in options.gpus] takes: all that the option has by default."""
    if isinstance(iterated, Sequence) and iterated.given is not None:
        return iterated.items[:MOST_ITEMS], False
    return items_of(run, iterated)


def iterated(run: Run, value: Value | None) -> Value:
    """What enumerate(), zip() and iter() go through: of an object what it gives in a loop."""
    value = Unknown() if value is None else resolve(value, run.path)
    if not isinstance(value, Object):
        return value
    if not isinstance(value.cls, Class):
        return modules_in(run, value) or value
    items, complete = items_of(run, value)
    return Sequence(items, open=not complete)


def _different(items: tuple[Value, ...]) -> tuple[Value, ...]:
    """The first of many items, which stands for the others, and what each does otherwise: of a
    list of functions or objects, all that are known."""
    kinds = (Const, Index, Unknown)
    if not items or len(items) > MOST_ITEMS or any(isinstance(item, kinds) for item in items):
        return (any_of(items),)
    return tuple({id(item): item for item in items}.values())


def any_of(items: tuple[Value, ...]) -> Value:
    """The first of many items as any of them: the numbers in a range or a list are others."""
    first = items[0] if items else Unknown()
    if len(items) > 1 and isinstance(first, Const) and type(first.value) in (int, float):
        return loop_number() if first.value == 0 else Unknown()
    if len(items) > 1 and isinstance(first, Sequence) and first.kind == "tuple" and first.items:
        others = (item.items[0] for item in items if isinstance(item, Sequence) and item.items)
        return Sequence((any_of(tuple(others)), *first.items[1:]), "tuple", open=first.open)
    return first


def _is_named(item: Value) -> bool:
    """Whether an item is one of a dictionary's: a known key, or a pair of it and a value."""
    key = item.items[0] if isinstance(item, Sequence) and len(item.items) == 2 else item
    return isinstance(key, Const) and isinstance(key.value, str)


def _named_items(items: tuple[Value, ...], is_open: bool) -> tuple[tuple[Value, ...], bool]:
    if len(items) <= _MOST_NAMED and not is_open:
        return items, True
    return (*items[:_MOST_NAMED], Unknown()), False


def _items_of_object(run: Run, iterated: Object) -> tuple[tuple[Value, ...], bool]:
    """What a loop gets from a named tuple, from modules in a list, or from an object with
    __iter__ or __next__."""
    items = tuple_items(iterated)
    if items is not None:
        return items, True
    modules = modules_in(run, iterated)
    if modules is not None:
        return items_of(run, modules)
    place = iterated.origin
    if kind_of(iterated) == "tensor" and place is not None:
        return (take(run, iterated, [loop_number()], place),), False
    if isinstance(iterated.cls, Class) and place is not None:
        for name in ("__iter__", "__next__"):
            found = class_attribute(iterated.cls, name)
            if found is None:
                continue
            given = resolve(call(run, Method(iterated, found), Arguments(), place), run.path)
            if name == "__next__":
                return (given,), False
            if given is not iterated:
                return items_of(run, given)
    return (Unknown(),), False
