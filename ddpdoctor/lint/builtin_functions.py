"""Python's built-in functions: what len(), int() and isinstance() give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddpdoctor.lint import environment, operators
from ddpdoctor.lint.attributes import (
    class_attribute,
    get_attribute,
    namespace_of,
    set_attribute,
    shows_all,
)
from ddpdoctor.lint.branches import Dead, split
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.checkpoints import keep, load_of
from ddpdoctor.lint.iteration import any_of, items_by_default, items_of, iterated
from ddpdoctor.lint.nn_modules import modules_in
from ddpdoctor.lint.paths import map_value, resolve, truth
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.spelled_names import attribute_by_text, eval_name
from ddpdoctor.lint.tensor_operations import combine
from ddpdoctor.lint.tensors import kind_of, member_of
from ddpdoctor.lint.values import (
    COUNTS,
    MISSING,
    RANKS,
    Arguments,
    Attribute,
    Class,
    Const,
    Device,
    Dict,
    Either,
    Function,
    Index,
    Name,
    Not,
    Object,
    Place,
    Role,
    Sequence,
    Text,
    Unknown,
    Value,
    either,
    loop_number,
)


def call_builtin(run: Run, name: str, arguments: Arguments, place: Place) -> Value:
    """builtins.<name>(...); unknown where the result does not matter."""
    known = _BUILTINS.get(name)
    if known is None:
        return Unknown()
    first = arguments.get(0)
    if first is not None and name in _ON_EACH:
        return map_value(
            environment.number(run, first) if name == "int" else first,
            run.path,
            lambda value: known(
                run,
                Arguments((value, *arguments.positional[1:]), arguments.named, arguments.open),
                place,
            ),
        )
    return known(run, arguments, place)


def _int(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0) or Const(0)
    if isinstance(value, Const):
        try:
            return Const(int(value.value), value.origin)
        except (TypeError, ValueError, OverflowError):
            return Unknown()
    if isinstance(value, Text) and len(value.parts) == 1 and isinstance(value.parts[0], Value):
        return value.parts[0]
    if isinstance(value, Unknown) and value.default is not None:
        default = _int(run, Arguments((value.default,)), place)
        return Unknown(value.key, default=default, given=value.given, origin=value.origin)
    if isinstance(value, (Index, Unknown)):
        return value
    return Unknown()


def _float(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0) or Const(0.0)
    if isinstance(value, Const):
        try:
            return Const(float(value.value), value.origin)
        except (TypeError, ValueError, OverflowError):
            return Unknown()
    return value if isinstance(value, (Index, Unknown)) else Unknown()


def _str(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0) or Const("")
    if isinstance(value, Device):
        if value.index is None:
            return Const(value.kind, value.origin)
        return operators.join_text((f"{value.kind}:", value.index), place)
    if isinstance(value, (Const, Text, Index)):
        return operators.join_text((value,), place)
    return value if isinstance(value, Unknown) else Unknown()


def _bool(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0) or Const(False)
    verdict = truth(value, run.path)
    return Const(verdict) if isinstance(verdict, bool) else Not(Not(value))


def _len(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0)
    if isinstance(value, Sequence):
        if not value.open:
            return Const(len(value.items))
        first = value.items[0] if value.items else None
        if isinstance(first, Index) and first.role is Role.PHYSICAL:
            return Index(Role.DEVICES)
    if isinstance(value, Dict) and not value.open:
        return Const(len(value.entries))
    if isinstance(value, Const) and isinstance(value.value, (str, bytes)):
        return Const(len(value.value))
    if isinstance(value, Object):
        modules = modules_in(run, value)
        return Unknown() if modules is None or modules.open else Const(len(modules.items))
    return Unknown()


def _range(run: Run, arguments: Arguments, place: Place) -> Value:
    given = [resolve(value, run.path) for value in arguments.positional]
    numbers = [v.value for v in given if isinstance(v, Const) and isinstance(v.value, int)]
    if given and len(numbers) == len(given) <= 3 and not (len(numbers) == 3 and not numbers[2]):
        span = range(*numbers)
        return Sequence(tuple(Const(n) for n in span[:16]), open=len(span) > 16)
    if len(given) == 1 and isinstance(given[0], Index) and given[0].role in COUNTS:
        return Sequence((loop_number(given[0].role),), open=True)
    return Sequence((loop_number(),) if len(given) == 1 else (), open=True)


def _enumerate(run: Run, arguments: Arguments, place: Place) -> Value:
    value = iterated(run, arguments.get(0, "iterable"))
    if isinstance(value, Sequence) and not value.open:
        pairs = [
            Sequence((Const(position), item), "tuple") for position, item in enumerate(value.items)
        ]
        return Sequence(tuple(pairs))
    item = any_of(value.items if isinstance(value, Sequence) else ())
    number = Unknown() if len(arguments.positional) > 1 or arguments.named else loop_number()
    return Sequence((Sequence((number, item), "tuple"),), open=True)


def _zip(run: Run, arguments: Arguments, place: Place) -> Value:
    columns = [iterated(run, value) for value in arguments.positional]
    if columns and all(isinstance(c, Sequence) and not c.open for c in columns):
        rows = zip(*(c.items for c in columns if isinstance(c, Sequence)), strict=False)
        return Sequence(tuple(Sequence(row, "tuple") for row in rows))
    row = tuple(any_of(c.items if isinstance(c, Sequence) else ()) for c in columns)
    return Sequence((Sequence(row, "tuple"),), open=True)


def _sequence_of(kind: str) -> Callable[[Run, Arguments, Place], Value]:
    def build(run: Run, arguments: Arguments, place: Place) -> Value:
        value = arguments.get(0)
        if value is None:
            return Sequence((), kind)
        if isinstance(value, Sequence):
            return Sequence(value.items, kind, open=value.open, given=value.given)
        if isinstance(value, Dict):
            return Sequence(tuple(Const(key) for key in value.entries), kind, open=value.open)
        return Sequence((), kind, open=True)

    return build


def _dict(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0)
    entries: dict[Any, Value] = {}
    parts: list[Value] = []
    open_ended = arguments.open
    if isinstance(value, Dict):
        entries.update(value.entries)
        open_ended = open_ended or value.open
    elif isinstance(value, Object) and load_of(run, value) is None:
        entries.update(value.attributes)
    elif isinstance(value, Sequence):
        for pair in value.items:
            if isinstance(pair, Sequence) and len(pair.items) == 2:
                key = resolve(pair.items[0], run.path)
                if isinstance(key, Const):
                    entries[key.value] = pair.items[1]
                else:
                    parts.append(pair.items[1])
    elif isinstance(value, Name) and value.name == "os.environ":
        entries, open_ended = environment.copied(run).entries, True
    elif value is not None:
        open_ended = True
    result = Dict({**entries, **arguments.named}, open=open_ended or bool(parts))
    for part in (value, *parts):
        keep(run, result, part)
    return result


def _map(run: Run, arguments: Arguments, place: Place) -> Value:
    function = arguments.get(0)
    if function is None or len(arguments.positional) < 2:
        return Unknown()
    source = resolve(arguments.positional[1], run.path)
    items, complete = items_by_default(run, source)
    rest = tuple(Unknown() for _ in arguments.positional[2:])
    results = [call(run, function, Arguments((item, *rest)), place) for item in items]
    given = source.given if isinstance(source, Sequence) else None
    return Sequence(tuple(results), open=not complete, given=given)


def _first_of(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0)
    if isinstance(value, Sequence) and value.items:
        return value.items[0]
    return Unknown() if len(arguments.positional) < 2 else arguments.positional[1]


def _next(run: Run, arguments: Arguments, place: Place) -> Value:
    value = resolve(arguments.get(0) or Unknown(), run.path)
    member = member_of(value)
    return member if member is not None else _first_of(run, arguments, place)


def _iter(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0)
    return Sequence((), open=True) if value is None else iterated(run, value)


def _extreme(least: bool) -> Callable[[Run, Arguments, Place], Value]:
    def choose(run: Run, arguments: Arguments, place: Place) -> Value:
        values = [resolve(value, run.path) for value in arguments.positional]
        if len(values) == 1 and isinstance(values[0], Sequence):
            values = list(values[0].items)
        numbers = [v for v in values if isinstance(v, Const) and isinstance(v.value, (int, float))]
        if values and len(numbers) == len(values):
            return (min if least else max)(numbers, key=lambda v: v.value)
        ranks = [v for v in values if isinstance(v, Index) and v.role in RANKS]
        if ranks and len(values) == 2 and len(numbers) == 1 and not least and numbers[0].value <= 0:
            return ranks[0]
        return Unknown()

    return choose


def _sum(run: Run, arguments: Arguments, place: Place) -> Value:
    """Of tensors; the sum of other things is not asked for."""
    items, _ = items_of(run, arguments.get(0) or Unknown())
    total: Value | None = arguments.get(1, "start") or Const(0)
    for item in items:
        total = combine(run, total or Unknown(), item, place)
    return total or Unknown()


def get_by_name(run: Run, arguments: Arguments, place: Place) -> Value:
    """getattr(receiver, name), and the __dict__[name] of a library's module."""
    receiver, name = arguments.get(0), arguments.get(1)
    if isinstance(receiver, Either):
        rest = arguments.positional[1:]
        return split(run, receiver, lambda each: get_by_name(run, Arguments((each, *rest)), place))
    if receiver is not None and isinstance(name, Unknown) and isinstance(name.default, Const):
        by_default = Arguments((receiver, name.default, *arguments.positional[2:]))
        key = ("==", name.key, name.default.value)
        return either(key, True, get_by_name(run, by_default, place), Unknown())
    if receiver is not None and isinstance(name, Text):
        return attribute_by_text(run, receiver, name, arguments.get(2), place)
    default = arguments.get(2)
    if (
        isinstance(name, (Unknown, Name))
        and isinstance(receiver, Name)
        and isinstance(default, Name)
    ):
        # getattr(torch, device_type, torch.cuda): CUDA's, unless another is asked for
        asked = name.key if isinstance(name, Unknown) else name.name
        return either(("getattr", receiver.name, asked), True, default, Unknown())
    if receiver is None or not isinstance(name, Const) or not isinstance(name.value, str):
        return Unknown()
    value = get_attribute(run, receiver, name.value, place)
    if default is not None and isinstance(value, Attribute):
        shown = isinstance(receiver, Object) or shows_all(receiver)
        return default if shown else Unknown()
    return value


def _setattr(run: Run, arguments: Arguments, place: Place) -> Value:
    receiver, name, value = arguments.get(0), arguments.get(1), arguments.get(2)
    if receiver is not None and value is not None and isinstance(name, Const):
        word, held = str(name.value), value
        split(run, receiver, lambda each: set_attribute(run, each, word, held, place))
    elif isinstance(receiver, Class):
        receiver.open = True
    return Const(None)


def _exec(run: Run, arguments: Arguments, place: Place) -> Value:
    """The code is not seen; it may write any name into the dictionary that it is given."""
    for given in arguments.positional[1:]:
        names = resolve(given, run.path)
        if isinstance(names, Dict):
            run.heap.write(names.cell, "open", True)
    return Const(None)


def _hasattr(run: Run, arguments: Arguments, place: Place) -> Value:
    receiver, name = arguments.get(0), arguments.get(1)
    if isinstance(name, Const) and isinstance(receiver, Class):
        held = class_attribute(receiver, str(name.value))
        if held is None:
            return Const(False) if shows_all(receiver) else Unknown()
        held = resolve(held, run.path)
        return Unknown() if isinstance(held, Either) else Const(held is not MISSING)
    if isinstance(receiver, Object) and isinstance(name, Const):
        if receiver.attributes.get(name.value, MISSING) is not MISSING:
            return Const(True)
        if isinstance(receiver.cls, Name) and receiver.cls.name == "argparse.Namespace":
            return Const(False)
    if isinstance(receiver, Name) and isinstance(name, Const):
        return Const(True)  # a library's attribute that the program asks for is usually there
    if isinstance(receiver, Unknown) and isinstance(name, Const):
        return Unknown(("hasattr", receiver.key, name.value))
    return Unknown()


_TYPES = {"int": int, "str": str, "float": float, "bool": bool, "bytes": bytes}


def _isinstance(run: Run, arguments: Arguments, place: Place) -> Value:
    value, kind = arguments.get(0), arguments.get(1)
    if isinstance(kind, Sequence):
        verdicts = [_is_instance(value, item) for item in kind.items]
        if any(verdict is True for verdict in verdicts):
            return Const(True)
        return Const(False) if all(verdict is False for verdict in verdicts) else Unknown()
    verdict = _is_instance(value, kind)
    return Unknown() if verdict is None else Const(verdict)


def _is_instance(value: Value | None, kind: Value | None) -> bool | None:
    known_as = None if value is None else kind_of(value)
    if isinstance(kind, Name) and kind.name.startswith("builtins."):
        name = kind.name.rpartition(".")[2]
        if isinstance(value, Const) and name in _TYPES:
            return isinstance(value.value, _TYPES[name])
        if isinstance(value, Index):
            return name == "int" if name in _TYPES else None
        if isinstance(value, Text):
            return name == "str"
        if isinstance(value, Dict):
            return name == "dict"
        if isinstance(value, Sequence):
            return name == value.kind
        if isinstance(value, (Device, Function, Class)) or known_as == "tensor":
            return False
        if isinstance(value, Object) and isinstance(value.cls, Class):
            return False if not value.cls.library_bases() else None
    if isinstance(kind, Name) and kind.name == "torch.Tensor":
        known = isinstance(value, (Const, Dict, Sequence, Text)) or known_as is not None
        return known_as == "tensor" if known else None
    if isinstance(kind, Name) and kind.name == "torch.device":
        known = isinstance(value, (Device, Const, Index, Text))
        return isinstance(value, Device) if known else None
    if isinstance(kind, Class) and isinstance(value, Object) and isinstance(value.cls, Class):
        return any(ancestor is kind for ancestor in value.cls.ancestors()) or None
    return None


def _type(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0)
    if len(arguments.positional) == 1 and isinstance(value, Object) and value.cls is not None:
        return value.cls
    return Unknown()


def _vars(run: Run, arguments: Arguments, place: Place) -> Value:
    given = arguments.get(0)
    return _locals(run, arguments, place) if given is None else namespace_of(given)


def _locals(run: Run, arguments: Arguments, place: Place) -> Value:
    """A copy: what is put into it later is no variable of the function."""
    variables = run.frame.scope.variables
    return Dict({name: value for name, value in variables.items() if isinstance(name, str)})


def _quit(run: Run, arguments: Arguments, place: Place) -> Value:
    raise Dead(exits=True)


def _quantifier(all_of: bool) -> Callable[[Run, Arguments, Place], Value]:
    def decide(run: Run, arguments: Arguments, place: Place) -> Value:
        value = arguments.get(0)
        if not isinstance(value, Sequence):
            return Unknown()
        verdicts = [truth(item, run.path) for item in value.items]
        if any(verdict is (not all_of) for verdict in verdicts):
            return Const(not all_of)
        if not value.open and all(verdict is all_of for verdict in verdicts):
            return Const(all_of)
        return Unknown()

    return decide


def _globals(run: Run, arguments: Arguments, place: Place) -> Value:
    return Dict(run.frame.module.variables, open=True)


def _object_type(run: Run, arguments: Arguments, place: Place) -> Value:
    return Object(None, {}, place)


_BUILTINS: dict[str, Callable[[Run, Arguments, Place], Value]] = {
    "int": _int,
    "float": _float,
    "str": _str,
    "repr": _str,
    "bool": _bool,
    "len": _len,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "list": _sequence_of("list"),
    "tuple": _sequence_of("tuple"),
    "set": _sequence_of("set"),
    "frozenset": _sequence_of("set"),
    "sorted": _sequence_of("list"),
    "reversed": _sequence_of("list"),
    "iter": _iter,
    "dict": _dict,
    "map": _map,
    "next": _next,
    "sum": _sum,
    "min": _extreme(True),
    "max": _extreme(False),
    "getattr": get_by_name,
    "eval": eval_name,
    "exec": _exec,
    "setattr": _setattr,
    "object.__setattr__": _setattr,
    "hasattr": _hasattr,
    "isinstance": _isinstance,
    "type": _type,
    "vars": _vars,
    "globals": _globals,
    "locals": _locals,
    "exit": _quit,
    "quit": _quit,
    "any": _quantifier(False),
    "all": _quantifier(True),
    "object": _object_type,
}
_ON_EACH = frozenset({"int", "float", "str", "len", "list", "tuple", "dict"})
