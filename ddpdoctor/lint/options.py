"""Command-line options and configuration objects: what their values are by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from ddpdoctor.lint.calls import call
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.trace import ARGUMENT
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Class,
    Const,
    Dict,
    Either,
    Function,
    Index,
    Method,
    Name,
    Native,
    Object,
    Place,
    Role,
    Sequence,
    Unknown,
    Value,
)

PARSER = "argparse.ArgumentParser"
NAMESPACE = "argparse.Namespace"

# torch.distributed.launch passes --local_rank (--local-rank since 2.0) to every process, and so
# do deepspeed and others; torchrun never does.
_LOCAL_RANK = ("local_rank", "localrank", "local_process_index")


def new_parser(run: Run, arguments: Arguments, place: Place) -> Object:
    """argparse.ArgumentParser(parents=[...])."""
    options: dict[Any, Value] = {}
    parents = arguments.named.get("parents")
    if isinstance(parents, Sequence):
        for parent in parents.items:
            held = _options(resolve(parent, run.path))
            if held is not None:
                options.update(held.entries)
    return Object(Name(PARSER), {"#options": Dict(options)}, place)


def _options(parser: Value) -> Dict | None:
    if isinstance(parser, Object):
        held = parser.attributes.get("#options")
        if isinstance(held, Dict):
            return held
    return None


def parser_method(
    run: Run, parser: Object, name: str, arguments: Arguments, place: Place
) -> Value | None:
    """A method of an argparse parser; None where it is of no interest."""
    options = _options(parser)
    if options is None:
        return None
    if name == "add_argument":
        _add_argument(run, options, arguments, place)
        return Unknown()
    if name == "add_arguments":  # of simple_parsing: the fields of a class
        destination = arguments.get(1, "dest")
        if isinstance(destination, Const):
            record = call_with_options(run, arguments.get(0) or Unknown(), place)
            run.heap.write(options.entries, destination.value, record)
        return Unknown()
    if name == "add_subparsers":
        destination = arguments.named.get("dest")
        if isinstance(destination, Const) and destination.value is not None:
            chosen = Unknown(("option", destination.value, place))
            run.heap.write(options.entries, destination.value, chosen)
        return parser
    if name in ("add_argument_group", "add_mutually_exclusive_group"):
        return parser
    if name == "add_parser":
        return _with_parents(run, parser, options, arguments)
    if name == "set_defaults":
        for key, value in arguments.named.items():
            _set_default(run, options, key, value)
        return Const(None)
    if name == "parse_args":
        return _namespace(run, options, arguments, place)
    if name == "parse_known_args":
        return Sequence((_namespace(run, options, arguments, place), Unknown()), "tuple")
    return None


def _with_parents(run: Run, parser: Object, options: Dict, arguments: Arguments) -> Object:
    parents = arguments.named.get("parents")
    if isinstance(parents, Sequence):
        for parent in parents.items:
            held = _options(resolve(parent, run.path))
            if held is not None:
                for key, value in held.entries.items():
                    run.heap.write(options.entries, key, value)
    return parser


def _set_default(run: Run, options: Dict, key: str, value: Value) -> None:
    old = options.entries.get(key, MISSING)
    if old is MISSING:
        run.heap.write(options.entries, key, value)
    elif key in options.entries and isinstance(old, Unknown):
        new = Unknown(old.key, default=value, given=old.given, origin=old.origin)
        run.heap.write(options.entries, key, new)
    else:  # several subcommands, each with its own function
        chosen = ("subcommand", key, id(value))
        run.heap.write(options.entries, key, Either(chosen, None, value, old))


def _add_argument(run: Run, options: Dict, arguments: Arguments, place: Place) -> None:
    names = [
        value.value
        for value in arguments.positional
        if isinstance(value, Const) and isinstance(value.value, str)
    ]
    if not names:
        return
    long = next((name for name in names if name.startswith("--")), names[0])
    given = arguments.named.get("dest")
    key = given.value if isinstance(given, Const) else long.lstrip("-").replace("-", "_")
    option = _option(run, long, (*names, str(key)), arguments, place)
    run.heap.write(options.entries, key, option)


def _is_local_rank(name: str) -> bool:
    return name.lstrip("-").replace("-", "_").lower() in _LOCAL_RANK


def _option(
    run: Run, flag: str, names: tuple[str, ...], arguments: Arguments, place: Place
) -> Value:
    """The value of a command-line option. names: every name it has, the attribute's included."""
    default = arguments.named.get("default")
    action = arguments.named.get("action")
    word = action.value if isinstance(action, Const) else None
    if default is None and word in ("store_true", "store_false"):
        default = Const(word == "store_false")
    if default is None and flag.startswith("-"):
        default = Const(None)
    required = arguments.named.get("required")
    if isinstance(required, Const) and required.value:
        default = None
    if default is not None:
        default = resolve(default, run.path)
    if isinstance(default, Sequence):
        return as_default(default, flag)
    if isinstance(default, (Index, Either)) or (
        default is not None and not isinstance(default, Const)
    ):
        return default  # computed from the environment: the launcher decides, not the user
    origin = default.origin if default is not None and default.origin is not None else place
    option = Unknown(("option", flag, place), default=default, given=flag, origin=origin)
    if any(_is_local_rank(name) for name in names):
        run.record("asks", flag, place, answer=ARGUMENT)
        if run.launches and all(line.passes_local_rank for line in run.launches):
            run.record("launcher", flag, place)
        return Index(Role.LOCAL_ARGUMENT, place, argument=option)
    return option


def _namespace(run: Run, options: Dict, arguments: Arguments, place: Place) -> Object:
    attributes = {key: value for key, value in options.entries.items() if value is not MISSING}
    into = arguments.get(1, "namespace")
    if isinstance(into, Object):
        for key, value in attributes.items():
            run.heap.write(into.attributes, key, value)
        return into
    return Object(Name(NAMESPACE), attributes, place)


def click_option(run: Run, arguments: Arguments, place: Place) -> Value:
    """click.option("--gpu", "gpu", default=0) as a decorator."""
    names = [
        value.value
        for value in arguments.positional
        if isinstance(value, Const) and isinstance(value.value, str)
    ]
    if not names:
        return Unknown()
    plain = [name for name in names if not name.startswith("-")]
    long = next((name for name in names if name.startswith("--")), names[0])
    key = plain[0] if plain else long.lstrip("-").partition("/")[0].replace("-", "_")
    flag = arguments.named.get("is_flag")
    filled = arguments
    if isinstance(flag, Const) and flag.value and "default" not in arguments.named:
        filled = Arguments(arguments.positional, {**arguments.named, "default": Const(False)})
    value = _option(run, long, (*names, key), filled, place)
    return Object(None, {"#option": Const(key), "#value": value}, place)


def flag_option(run: Run, flags: Unknown, arguments: Arguments, place: Place) -> Value:
    """flags.DEFINE_integer("gpu", 0, "..."): FLAGS.gpu, and the .value of what is given back."""
    name = resolve(arguments.get(0, "name") or Unknown(), run.path)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return Unknown()
    default = arguments.get(1, "default") or Const(None)
    given = Arguments((), {**arguments.named, "default": default})
    option = _option(run, f"--{name.value}", (name.value,), given, place)
    run.heap.write(run.of_unknown, (flags.key, name.value), option)
    return Object(None, {"value": option}, place)


def parse_into_dataclasses(run: Run, parser: Value | None, place: Place) -> Value:
    kept = parser.attributes.get("#kept") if isinstance(parser, Object) else None
    classes = kept.items if isinstance(kept, Sequence) else (kept,) if kept is not None else ()
    made = [call_with_options(run, resolve(cls, run.path), place) for cls in classes]
    return Sequence(tuple(made), "tuple")


def call_with_options(run: Run, target: Value, place: Place) -> Value:
    """Calls a function, or makes a record, whose parameters the command line can set."""
    function = target.function if isinstance(target, Method) else target
    if isinstance(function, Function):
        named = {
            name: as_option(f"--{name}", resolve(default, run.path), place)
            for name, default in function.defaults.items()
        }
        return call(run, target, Arguments((), named), place)
    instance = call(run, target, Arguments(), place)
    if isinstance(target, Class) and isinstance(instance, Object):
        for name in target.fields:
            value = resolve(instance.attributes.get(name, Unknown()), run.path)
            run.heap.write(instance.attributes, name, as_option(f"--{name}", value, place))
    return instance


def gives_first_argument(run: Run, make: Callable[[cst.Param], Value]) -> Native:
    """A decorator that makes the first argument of its function from the command line."""

    def decorate(arguments: Arguments, place: Place) -> Value:
        function = arguments.get(0) or Unknown()
        if isinstance(function, Function):
            for parameter in function.parameters.params[:1]:
                run.heap.write(function.defaults, parameter.name.value, make(parameter))
        return function

    return Native(decorate)


def as_default(default: Sequence, flag: str | None = None) -> Sequence:
    """A list that the user can replace: its items are known by default, their number never."""
    if not all(isinstance(item, Const) for item in default.items):
        return default
    return Sequence(default.items, default.kind, open=True, given=flag, origin=default.origin)


def as_option(flag: str, default: Value, place: Place) -> Value:
    """What the command line can set: unknown, with its default."""
    if isinstance(default, Sequence):
        return as_default(default, flag)
    if not isinstance(default, Const):
        return default
    option = Unknown(("option", flag, place), default=default, given=flag, origin=default.origin)
    if _is_local_rank(flag.rpartition(".")[2]):
        return Index(Role.LOCAL_ARGUMENT, default.origin, argument=option)
    return option
