"""Arithmetic, text and subscripts on abstract values."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from math import prod
from typing import Any

import libcst as cst

from ddpdoctor.lint.paths import Path, map_value, resolve
from ddpdoctor.lint.values import (
    COUNTS,
    MISSING,
    MOST_ALTERNATIVES,
    RANKS,
    Const,
    Dict,
    Either,
    Index,
    Object,
    Place,
    Role,
    Sequence,
    Text,
    Unknown,
    Value,
    alternatives,
    either,
    is_loop_number,
    same,
    tuple_items,
)

_ARITHMETIC: dict[type[cst.CSTNode], Callable[[Any, Any], Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
    cst.BitOr: operator.or_,
    cst.BitAnd: operator.and_,
    cst.BitXor: operator.xor,
    cst.LeftShift: operator.lshift,
    cst.RightShift: operator.rshift,
}
# Augmented assignments do the same under other node types.
OF_ASSIGNMENT: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    getattr(cst, kind.__name__ + "Assign"): kind for kind in _ARITHMETIC
}
_LONGEST_TEXT = 10_000
_WIDE = re.compile(r"%[^a-zA-Z%]*[0-9]{5}")


def binary(kind: type[cst.CSTNode], left: Value, right: Value, path: Path, place: Place) -> Value:
    """The value of `left OP right`; kind is libcst's operator class."""
    return map_value(
        left,
        path,
        lambda a: map_value(right, path, lambda b: _binary(kind, a, b, place)),
    )


def _binary(kind: type[cst.CSTNode], a: Value, b: Value, place: Place) -> Value:
    if isinstance(a, Const) and isinstance(b, Const):
        return _constants(kind, a, b)
    if kind is cst.Add:
        if _is_text(a) or _is_text(b):
            return join_text((a, b), place)
        if isinstance(a, Sequence) and isinstance(b, Sequence):
            return Sequence((*a.items, *b.items), a.kind, open=a.open or b.open)
    if kind is cst.Modulo and isinstance(a, Const) and isinstance(a.value, str):
        return percent(a.value, b, place)
    if kind is cst.Multiply and isinstance(a, Sequence):
        if isinstance(b, Const) and isinstance(b.value, int) and len(a.items) * b.value <= 64:
            return Sequence(a.items * b.value, a.kind, open=a.open)
        return Sequence(a.items, a.kind, open=True)
    if kind is cst.BitOr and isinstance(a, Dict) and isinstance(b, Dict):
        return Dict({**a.entries, **b.entries}, open=a.open or b.open)
    return _with_rank(kind, a, b)


def _constants(kind: type[cst.CSTNode], a: Const, b: Const) -> Value:
    if kind not in _ARITHMETIC:
        return Unknown()
    if kind in (cst.Power, cst.LeftShift, cst.Multiply) and not _is_small(a, b):
        return Unknown()
    if kind is cst.Modulo and isinstance(a.value, (str, bytes)) and _pads_widely(a.value):
        return Unknown()
    try:
        result = _ARITHMETIC[kind](a.value, b.value)
    except (TypeError, ValueError, ArithmeticError):
        return Unknown()
    if isinstance(result, (str, bytes)) and len(result) > _LONGEST_TEXT:
        return Unknown()
    return Const(result, a.origin or b.origin)


def _is_small(a: Const, b: Const) -> bool:
    return all(
        len(v) * 64 < _LONGEST_TEXT if isinstance(v, (str, bytes)) else abs(v) < 64
        for v in (a.value, b.value)
        if isinstance(v, (str, bytes, int, float))
    )


def _pads_widely(form: str | bytes) -> bool:
    """Whether a width has so many digits, as "%9999999999d" has, that it would take all memory."""
    text = form if isinstance(form, str) else form.decode("latin-1")
    return _WIDE.search(text) is not None


def _with_rank(kind: type[cst.CSTNode], a: Value, b: Value) -> Value:
    """Arithmetic with a rank: what keeps it different on every rank of a machine keeps its role."""
    first = isinstance(a, Index) and not (isinstance(b, Index) and a.role in COUNTS)
    rank, other = (a, b) if first else (b, a)
    if not isinstance(rank, Index):
        return Unknown()
    if rank.role in COUNTS:
        return _with_count(kind, rank, other)
    if kind is cst.Modulo and rank is a:
        return _rank_modulo(rank, b)
    computed = Index(rank.role, rank.origin, exact=False, argument=rank.argument)
    if kind in (cst.Add, cst.Multiply) and rank.role is not Role.PHYSICAL:
        if isinstance(other, Const) and other.value == (1 if kind is cst.Multiply else 0):
            return rank
        if isinstance(other, Index) and other.role in RANKS:
            return Index(Role.GLOBAL, rank.origin)  # node rank * n + local rank
        if isinstance(other, (Const, Index)) and rank.role is Role.LOCAL:
            return computed
    if kind is cst.Subtract and rank is a:
        if isinstance(b, Const) and rank.role is Role.LOCAL:
            return computed
        if isinstance(b, Index) and not b.exact and rank.role is b.role is Role.GLOBAL:
            # rank - gpus * (rank // gpus)
            return Index(Role.LOCAL, rank.origin, counted=True, guessed=True)
    return Unknown()


def _with_count(kind: type[cst.CSTNode], count: Index, other: Value) -> Value:
    if kind is cst.Multiply and isinstance(other, Unknown):
        return Index(Role.GLOBAL, count.origin, exact=False)  # node rank * ranks of a node
    if kind in (cst.Multiply, cst.Add, cst.FloorDivide, cst.Divide, cst.Subtract):
        # world size // device count is a node count; it says nothing of placement
        return Index(count.role, count.origin, exact=False)
    return Unknown()


def _rank_modulo(rank: Index, divisor: Value) -> Value:
    if isinstance(divisor, Const):
        return Unknown() if divisor.value == 1 else Index(Role.LOCAL, rank.origin, exact=False)
    if rank.role is Role.LOCAL_ARGUMENT:
        return Index(rank.role, rank.origin, argument=rank.argument)
    counted = isinstance(divisor, Index) and divisor.role is Role.DEVICES
    guessed = counted and (rank.role is Role.GLOBAL or rank.guessed)
    return Index(Role.LOCAL, rank.origin, exact=counted, counted=counted, guessed=guessed)


def _is_text(value: Value) -> bool:
    return isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str))


def join_text(values: tuple[Value | str, ...], place: Place) -> Value:
    """Concatenates: a constant where all parts are, else a Text; either-ors are kept outside, as
    long as these are few."""
    if prod(map(alternatives, values)) > MOST_ALTERNATIVES:
        values = tuple(Unknown() if isinstance(value, Either) else value for value in values)
    for position, value in enumerate(values):
        if isinstance(value, Either):
            before, after = values[:position], values[position + 1 :]
            return either(
                value.key,
                value.default,
                join_text((*before, value.yes, *after), place),
                join_text((*before, value.no, *after), place),
            )
    parts: list[str | Value] = []
    origin = None
    for value in values:
        pieces = value.parts if isinstance(value, Text) else (value,)
        for piece in pieces:
            text = _plain(piece)
            if isinstance(piece, Const) and origin is None:
                origin = piece.origin
            if text is not None and parts and isinstance(parts[-1], str):
                parts[-1] += text
            elif text is not None:
                parts += [text] if text else []
            elif piece is not MISSING:
                parts.append(piece)
    if not parts:
        return Const("", place)
    if len(parts) == 1 and isinstance(parts[0], str):
        return Const(parts[0][:_LONGEST_TEXT], origin or place)
    return Text(tuple(parts), place)


def _plain(piece: Value | str) -> str | None:
    if isinstance(piece, str):
        return piece
    return str(piece.value) if isinstance(piece, Const) else None


def percent(template: str, argument: Value, place: Place) -> Value:
    """ "cuda:%d" % rank, for one or several plain %d and %s."""
    values = argument.items if isinstance(argument, Sequence) else (argument,)
    pieces = template.replace("%%", "\0").replace("%i", "%s").replace("%d", "%s").split("%s")
    if len(pieces) != len(values) + 1 or any("%" in piece for piece in pieces):
        return Unknown()
    parts: list[Value | str] = [pieces[0].replace("\0", "%")]
    for value, piece in zip(values, pieces[1:], strict=True):
        parts += [value, piece.replace("\0", "%")]
    return join_text(tuple(parts), place)


def format_text(
    template: str, positional: tuple[Value, ...], named: dict[str, Value]
) -> list[Value | str]:
    """The parts of "cuda:{}".format(rank)."""
    import string

    parts: list[Value | str] = []
    count = 0
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is None:
            continue
        if name == "":
            name = str(count)
            count += 1
        if name.isdigit():
            number = int(name)
            parts.append(positional[number] if number < len(positional) else Unknown())
        else:
            parts.append(named.get(name, Unknown()))
    return parts


def subscript(container: Value, index: Value, path: Path) -> Value:
    """container[index]; Unknown where it is not held, with a key that names both."""
    return map_value(
        container,
        path,
        lambda c: map_value(index, path, lambda i: _subscript(c, i, path)),
    )


def _subscript(container: Value, index: Value, path: Path) -> Value:
    if isinstance(container, Dict):
        return _of_dict(container, index, path)
    if isinstance(container, Object):
        items = tuple_items(container)
        if items is not None:
            return resolve(_of_sequence(Sequence(items), index), path)
        if isinstance(index, Const) and isinstance(index.value, (str, int)):
            held = container.attributes.get(index.value)
            if held is not None:
                return resolve(held, path)
        children = resolve(container.attributes.get("#children", MISSING), path)
        if isinstance(children, Sequence):
            return resolve(_of_children(children, index), path)
        if "#load" in container.attributes:
            return container  # a part of a checkpoint comes from the same file
        if "#kernel" in container.attributes:
            return container  # kernel[grid] is launched when it is called
        return Unknown()
    if isinstance(container, Sequence):
        return _of_sequence(container, index)
    if isinstance(container, Const) and isinstance(index, Const):
        try:
            return Const(container.value[index.value], container.origin)
        except (TypeError, LookupError):
            return Unknown()
    if isinstance(container, Unknown) and isinstance(index, Const):
        return Unknown(("item", container.key, index.value))
    return Unknown()


def _of_dict(container: Dict, index: Value, path: Path) -> Value:
    if isinstance(index, Const):
        held = _hashable_get(container.entries, index.value)
        if held is not None and held is not MISSING:
            return resolve(held, path)
        return Unknown(("entry", id(container.entries), index.value))
    if isinstance(index, Unknown):
        return entry_at_choice(container, index, None)
    return Unknown()


# Of a larger table, a choice that is not known could mean anything.
_MOST_CHOICES = 8


def entry_at_choice(container: Dict, key: Unknown, otherwise: Value | None) -> Value:
    """TASKS[options.task]: each entry where the key is its own, and `otherwise` where it is none.

    Of a large table only the entry that is taken by default, or else the first, which is one that
    may be taken. None says that the key is held.
    """
    default = key.default.value if isinstance(key.default, Const) else None
    held = [(name, v) for name, v in container.entries.items() if v is not MISSING]
    if len(held) > _MOST_CHOICES or container.open:
        by_default = [(name, value) for name, value in held if name == default]
        held = held[:1] if key.default is None else by_default
        otherwise = Unknown()
    if not held:
        return Unknown() if otherwise is None else otherwise
    chosen = held.pop()[1] if otherwise is None else otherwise
    for name, value in held:
        taken = None if default is None else name == default
        asks = "is" if name is None else "=="  # as in `options.task == name`
        chosen = either(("true", (asks, key.key, name)), taken, value, chosen)
    return chosen


def _hashable_get(entries: dict[Any, Value], key: Any) -> Value | None:
    try:
        return entries.get(key)
    except TypeError:
        return None


def _of_sequence(container: Sequence, index: Value) -> Value:
    items = container.items
    if isinstance(index, Const) and isinstance(index.value, int):
        if -len(items) <= index.value < len(items) and not (container.open and index.value < 0):
            return _piece(container, index.value)
        if container.open and items and isinstance(items[0], Index):
            return items[0]  # the entries of a mask are all of one kind
        return Unknown()
    if isinstance(index, Index) and index.role in RANKS:
        return picked_by_rank(container, index)
    if items and not container.open and all(same(item, items[0]) for item in items):
        return items[0]
    return Unknown()


def _piece(container: Sequence, number: int) -> Value:
    item = container.items[number]
    if container.given is None or not isinstance(item, Const):
        return item
    key = ("piece", container.given, number)
    return Unknown(key, default=item, given=container.given, origin=item.origin)


def _of_children(children: Sequence, index: Value) -> Value:
    """layers[i] in a loop over their numbers is first the first of these modules, as in a loop over
    the modules themselves."""
    if is_loop_number(index) and children.items:
        return children.items[0]
    return _of_sequence(children, index)


def by_default(item: Value) -> Value:
    """A piece of an option as it is when nobody says otherwise."""
    return item.default if isinstance(item, Unknown) and item.default is not None else item


def picked_by_rank(container: Sequence, index: Index) -> Value:
    """list[local_rank]: another entry on every rank, or the same if all entries are equal."""
    items = tuple(map(by_default, container.items))
    if not items:
        return Unknown()
    if isinstance(items[0], Index):
        return items[0]
    if all(map(is_loop_number, items)):
        return index  # of range(...), or of what is left of it
    if all(isinstance(item, Const) for item in items):
        values = [item.value for item in items if isinstance(item, Const)]
        if len(items) > 1 and len({repr(value) for value in values}) == len(values):
            if values == list(range(len(values))):
                return index
            numbers = tuple(int(value) for value in values if str(value).isdigit())
            return Index(Role.LOCAL, items[0].origin, exact=False, choices=numbers)
    if all(isinstance(item, Text) for item in items):
        return items[0]
    return Unknown()
