"""Methods of Python's own values (lists, dictionaries, strings), and their copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddpdoctor.lint import checkpoints, operators
from ddpdoctor.lint.paths import or_else, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensors import kind_of
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Const,
    Dict,
    Index,
    Native,
    Object,
    Place,
    Role,
    Sequence,
    Text,
    Unknown,
    Value,
)

_MOST_ITEMS = 64  # of a list: nothing is asked of a longer one, item by item


def native_method(run: Run, receiver: Value, name: str) -> Value | None:
    """A bound method of a built-in value, or None where it has none that matters."""
    if isinstance(receiver, Sequence):
        if name in ("values", "indices") and receiver.items and _are_tensors(receiver):
            return receiver.items[0]  # of x.max(0), x.topk(2) ...: both are where x is
        table: dict[str, Any] = _SEQUENCE
    elif isinstance(receiver, Dict):
        table = _DICT
    elif isinstance(receiver, Text) or (
        isinstance(receiver, Const) and isinstance(receiver.value, str)
    ):
        table = _TEXT
    else:
        return None
    method = table.get(name)
    if method is None:
        moves = run.apis.methods.get(name)
        if isinstance(receiver, Dict) and moves is not None and moves.does == "place":
            return None  # of a library's dictionary of tensors
        return Native(lambda arguments, place: Unknown())
    return Native(lambda arguments, place: method(run, receiver, arguments, place))


def spelled(word: Unknown, method: str) -> Unknown:
    """What one of SPELLINGS makes of a word that is not known."""
    default = word.default
    if isinstance(default, Const) and isinstance(default.value, str):
        default = Const(getattr(default.value, method)(), default.origin)
    return Unknown(word.key, default=default, given=word.given, origin=word.origin)


def pieces_of(run: Run, word: Unknown, method: str, arguments: Arguments, place: Place) -> Value:
    """What one of SPLITTINGS makes of an option: its pieces by default. A user may give others,
    and more of them."""
    default = word.default
    if default is None or (isinstance(default, Const) and not isinstance(default.value, str)):
        return Unknown()
    pieces = _TEXT[method](run, default, arguments, place)
    if not isinstance(pieces, Sequence) or pieces.open:
        return Unknown()
    return Sequence(
        tuple(
            Unknown(
                ("piece", word.key, method, number),
                default=piece,
                given=word.given,
                origin=word.origin,
            )
            for number, piece in enumerate(pieces.items)
        ),
        open=True,
        given=word.given,
    )


def _are_tensors(pair: Sequence) -> bool:
    return all(kind_of(item) == "tensor" for item in pair.items)


def copied(run: Run, value: Value, depth: int = 0) -> Value:
    """copy.deepcopy: an object of its own, so that moving it does not move the first."""
    if depth > 6:
        return value
    if isinstance(value, Object):
        attributes = {
            key: copied(run, resolve(held, run.path), depth + 1)
            for key, held in value.attributes.items()
        }
        return Object(value.cls, attributes, value.origin)
    if isinstance(value, Dict):
        return _dict_copy(value)
    if isinstance(value, Sequence):
        return Sequence(value.items, value.kind, open=value.open)
    return value


def _append(run: Run, receiver: Sequence, arguments: Arguments, place: Place) -> Value:
    item = arguments.get(0) or Unknown()
    _add(run, receiver, (item,))
    return Const(None)


def _extend(run: Run, receiver: Sequence, arguments: Arguments, place: Place) -> Value:
    more = resolve(arguments.get(0) or Unknown(), run.path)
    if isinstance(more, Sequence):
        _add(run, receiver, more.items)
    if not isinstance(more, Sequence) or more.open:
        run.heap.write(receiver.cell, "open", True)
    return Const(None)


def _add(run: Run, receiver: Sequence, items: tuple[Value, ...]) -> None:
    _hold(run, receiver, (*receiver.items, *items))


def _hold(run: Run, receiver: Sequence, items: tuple[Value, ...]) -> None:
    """Writes what a list holds that was added to."""
    is_longer = len(items) > len(receiver.items)
    run.heap.write(receiver.cell, "items", items[:_MOST_ITEMS])
    if "#any" in receiver.cell and is_longer:
        run.heap.write(receiver.cell, "#any", Const(True))
    if len(items) > _MOST_ITEMS or receiver.uid < run.loop:  # each round adds its own
        run.heap.write(receiver.cell, "open", True)


def _insert(run: Run, receiver: Sequence, arguments: Arguments, place: Place) -> Value:
    items = list(receiver.items)
    where = arguments.get(0)
    if isinstance(where, Const) and isinstance(where.value, int):
        items.insert(where.value, arguments.get(1) or Unknown())
        _hold(run, receiver, tuple(items))
    return Const(None)


def _pop(run: Run, receiver: Sequence, arguments: Arguments, place: Place) -> Value:
    where = arguments.get(0) or Const(-1)
    return operators.subscript(receiver, where, run.path)


_SEQUENCE = {
    "append": _append,
    "add": _append,
    "extend": _extend,
    "update": _extend,
    "insert": _insert,
    "pop": _pop,
    "copy": lambda run, receiver, arguments, place: Sequence(
        receiver.items, receiver.kind, open=receiver.open
    ),
}


def _dict_get(run: Run, receiver: Dict, arguments: Arguments, place: Place) -> Value:
    key = resolve(arguments.get(0, "key") or Unknown(), run.path)
    default = arguments.get(1, "default") or Const(None)
    if isinstance(key, Unknown):
        return resolve(operators.entry_at_choice(receiver, key, default), run.path)
    if not isinstance(key, Const):
        return Unknown()
    held = receiver.entries.get(key.value, MISSING)
    if held is MISSING:
        if receiver.open:
            return Unknown(("entry", id(receiver.entries), key.value))
        return default
    return or_else(held, run.path, lambda: default)


def _dict_setdefault(run: Run, receiver: Dict, arguments: Arguments, place: Place) -> Value:
    key = resolve(arguments.get(0) or Unknown(), run.path)
    value = arguments.get(1) or Const(None)
    if not isinstance(key, Const):
        run.heap.write(receiver.cell, "open", True)
        return Unknown()
    held = receiver.entries.get(key.value, MISSING)
    if held is MISSING:
        run.heap.write(receiver.entries, key.value, value)
        return value
    return resolve(held, run.path)


def _dict_update(run: Run, receiver: Dict, arguments: Arguments, place: Place) -> Value:
    given = resolve(arguments.get(0) or Dict({}), run.path)
    entries: dict[Any, Value] = dict(arguments.named)
    if isinstance(given, Dict):
        entries = {**given.entries, **entries}
    elif isinstance(given, Object) and "#load" not in given.attributes:
        entries = {**given.attributes, **entries}
    if arguments.open or isinstance(given, Unknown) or (isinstance(given, Dict) and given.open):
        run.heap.write(receiver.cell, "open", True)
    checkpoints.keep(run, receiver, given)
    for key, value in entries.items():
        run.heap.write(receiver.entries, key, value)
    return Const(None)


def _dict_pop(run: Run, receiver: Dict, arguments: Arguments, place: Place) -> Value:
    value = _dict_get(run, receiver, arguments, place)
    key = resolve(arguments.get(0) or Unknown(), run.path)
    if isinstance(key, Const) and key.value in receiver.entries:
        run.heap.write(receiver.entries, key.value, MISSING)
    return value


def _dict_copy(held: Dict) -> Dict:
    return Dict(dict(held.entries), open=held.open, loaded=held.loaded)


def _dict_items(run: Run, receiver: Dict, arguments: Arguments, place: Place) -> Value:
    pairs = tuple(
        Sequence((Const(key), value), "tuple")
        for key, value in receiver.entries.items()
        if value is not MISSING
    )
    loaded = resolve(receiver.loaded, run.path)
    if loaded is not MISSING:
        pairs = (Sequence((Unknown(), loaded), "tuple"), *pairs)
    return Sequence(pairs, open=receiver.open)


_DICT = {
    "get": _dict_get,
    "setdefault": _dict_setdefault,
    "update": _dict_update,
    "pop": _dict_pop,
    "items": _dict_items,
    "keys": lambda run, receiver, arguments, place: Sequence(
        tuple(Const(key) for key in receiver.entries), open=receiver.open
    ),
    "values": lambda run, receiver, arguments, place: Sequence(
        tuple(v for v in receiver.entries.values() if v is not MISSING), open=receiver.open
    ),
    "copy": lambda run, receiver, arguments, place: _dict_copy(receiver),
}


def _format(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    if not isinstance(receiver, Const):
        return Unknown()
    try:
        parts = operators.format_text(receiver.value, arguments.positional, arguments.named)
    except ValueError:
        return Unknown()
    return operators.join_text(tuple(parts), place)


def _split(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    separator = arguments.get(0, "sep") or Const(None)
    if isinstance(receiver, Const) and isinstance(separator, Const):
        try:
            pieces = receiver.value.split(separator.value)
        except (TypeError, ValueError):
            return Unknown()
        return Sequence(tuple(Const(piece, receiver.origin) for piece in pieces[:64]))
    if isinstance(receiver, Text):
        first = receiver.parts[0]
        if len(receiver.parts) == 1 and isinstance(first, Index) and first.role is Role.PHYSICAL:
            return Sequence((first,), open=True)
        if (
            isinstance(separator, Const)
            and isinstance(first, str)
            and first == f"cuda{separator.value}"
            and len(receiver.parts) == 2
            and isinstance(receiver.parts[1], Value)
        ):
            return Sequence((Const("cuda"), receiver.parts[1]))
    return Sequence((), open=True)


def _join(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    items = resolve(arguments.get(0) or Unknown(), run.path)
    if not isinstance(receiver, Const) or not isinstance(items, Sequence):
        return Unknown()
    if items.open and items.given is None:
        return Unknown()
    parts: list[Value | str] = []
    for position, item in enumerate(map(operators.by_default, items.items)):
        parts += [receiver.value, item] if position else [item]
    joined = operators.join_text(tuple(parts), place)
    if items.given is None:
        return joined
    return Unknown(default=joined, given=items.given, origin=items.origin)


def _startswith(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    prefix = arguments.get(0)
    if isinstance(prefix, Const) and isinstance(prefix.value, str):
        text = receiver.value if isinstance(receiver, Const) else _leading(receiver)
        if isinstance(receiver, Const) or len(text) >= len(prefix.value):
            return Const(text.startswith(prefix.value))
    return Unknown()


def _leading(receiver: Value) -> str:
    first = receiver.parts[0] if isinstance(receiver, Text) else ""
    return first if isinstance(first, str) else ""


def _same_text(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    return receiver


def _constant_method(name: str) -> Callable[[Run, Value, Arguments, Place], Value]:
    def method(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
        given = [resolve(value, run.path) for value in arguments.positional]
        constants = [value.value for value in given if isinstance(value, Const)]
        if isinstance(receiver, Const) and len(constants) == len(given) and not arguments.named:
            try:
                result = getattr(receiver.value, name)(*constants)
            except (TypeError, ValueError, LookupError):
                return Unknown()
            return Const(result, receiver.origin)
        return Unknown()

    return method


def _pieces(name: str) -> Callable[[Run, Value, Arguments, Place], Value]:
    constant = _constant_method(name)

    def method(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
        pieces = constant(run, receiver, arguments, place)
        if not isinstance(pieces, Const):
            return Sequence((), open=True)
        return Sequence(tuple(Const(piece, receiver.origin) for piece in pieces.value[:64]))

    return method


_TEXT: dict[str, Any] = {
    "format": _format,
    "split": _split,
    "rsplit": _pieces("rsplit"),
    "partition": _pieces("partition"),
    "rpartition": _pieces("rpartition"),
    "join": _join,
    "startswith": _startswith,
    **{
        name: _constant_method(name)
        for name in ("replace", "endswith", "isdigit", "isnumeric", "find", "title", "capitalize")
    },
}


def _or_same(name: str) -> Callable[[Run, Value, Arguments, Place], Value]:
    constant = _constant_method(name)

    def method(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
        if isinstance(receiver, Text):
            return receiver
        return constant(run, receiver, arguments, place)

    return method


def _open_path(run: Run, receiver: Value, arguments: Arguments, place: Place) -> Value:
    """Path("config.yaml").open() and .read_text(): a path is the text of it here."""
    from ddpdoctor.lint.config_objects import open_file

    return open_file(run, Arguments((receiver,)), place)


_TEXT.update({"open": _open_path, "read_text": _open_path})
# A word that the user chooses stays the same choice, in small letters or without the spaces.
SPELLINGS = ("lower", "casefold", "strip")
_TEXT.update({name: _or_same(name) for name in (*SPELLINGS, "upper", "rstrip", "lstrip")})
_TEXT["__str__"] = _same_text
SPLITTINGS = ("split", "rsplit", "partition", "rpartition")
