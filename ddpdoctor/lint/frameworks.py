"""Libraries that start, bind and run the ranks of a program, in the words of rules/apis."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from ddpdoctor.lint.attributes import class_attribute, get_attribute
from ddpdoctor.lint.branches import split
from ddpdoctor.lint.calls import call as call_value
from ddpdoctor.lint.library_values import named_value
from ddpdoctor.lint.machines import is_alone_on_machine
from ddpdoctor.lint.nn_modules import moved
from ddpdoctor.lint.options import NAMESPACE, call_with_options
from ddpdoctor.lint.paths import leaves, resolve
from ddpdoctor.lint.tensors import kind_of
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Device,
    Dict,
    Function,
    Method,
    Name,
    Native,
    Object,
    Partial,
    Sequence,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from ddpdoctor.lint.kinds.call import Call


def run_framework(call: Call) -> Value:
    """Opens the group, binds the process, takes the modules over, calls the program's hooks."""
    run, facts = call.run, call.api.facts
    open_group_and_bind(call)
    if facts.get("moves"):
        _move_modules(call)
    target = call.argument("target")
    if target is not None:
        rest = Arguments(call.arguments.positional[1:], call.arguments.named)
        first = (call.receiver,) if call.receiver is not None else ()
        call_value(run, target, Arguments((*first, *rest.positional), rest.named), call.place)
    for method in facts.get("methods", ()):
        _run_methods(call, method)
    for name in facts.get("functions", ()):
        _run_functions(call, name)
    if facts.get("kept") and isinstance(call.receiver, Object):
        _run_kept(call, call.receiver)
    word = facts.get("value")
    if word is not None:
        return named_value(run, word)
    if facts["does"] == "runs":
        return Unknown()
    made = Object(Name(call.name), {"#settings": Const(call)}, call.place)
    module = call.argument("module")
    if module is not None:
        run.heap.write(made.attributes, "#wrapped", module)
        run.heap.write(made.attributes, "module", module)
    parts = facts.get("parts")
    return made if parts is None else Sequence((made, *[Unknown()] * (parts - 1)), "tuple")


def run_command_line(call: Call) -> Value:
    """LightningCLI(Model, Data): makes them and a trainer, and trains unless told not to."""
    run, facts = call.run, call.api.facts
    attributes: dict[Any, Value] = {}
    for name in ("model", "datamodule"):
        cls = call.argument(name)
        if cls is not None:
            attributes[name] = call_with_options(run, cls, call.place)
    settings = call.argument("settings")
    entries = settings.entries if isinstance(settings, Dict) else {}
    trainer = call_value(
        run,
        call.argument("trainer") or Name(facts["makes"]),
        Arguments(named={str(name): value for name, value in entries.items()}),
        call.place,
    )
    runs = call.argument("runs")
    if not (isinstance(runs, Const) and runs.value is False):
        fit = get_attribute(run, trainer, facts["method"], call.place)
        call_value(run, fit, Arguments(named=attributes), call.place)
    return Object(Name(call.name), {**attributes, "trainer": trainer}, call.place)


def open_group_and_bind(call: Call) -> None:
    """What the facts `groups`, `binds` and `sets` say of a call."""
    run, facts = call.run, call.api.facts
    count = _processes(_maker(call))
    if facts.get("groups") and count != "one" and not is_alone_on_machine(run):
        run.record(
            "group",
            call.name,
            call.place,
            arguments=call.arguments,
            on_cpu=Const(False),
            sure=count == "several" or facts["groups"] == "sure" or bool(run.launches),
            api=call.api,
            framework=True,
        )
        run.set_process("group", Const("nccl"))
    if facts.get("binds"):
        run.set_process("current", named_value(run, "local_rank"))
    into = call.argument("into")
    if isinstance(into, Object):
        for name, word in facts.get("sets", {}).items():
            run.heap.write(into.attributes, name, named_value(run, word))


def _maker(call: Call) -> Call:
    """The call that made the receiver: Trainer(devices=4).fit(model) runs as Trainer() says."""
    if isinstance(call.receiver, Object):
        made = call.receiver.attributes.get("#settings")
        if isinstance(made, Const):
            maker: Call = made.value
            return maker
    return call


# -- how many processes -------------------------------------------------------------------------


def _processes(call: Call) -> str:
    """ "one", "several" or "unseen", as the arguments of a framework's constructor say.

    Facts: counts, the arguments that hold a number (or list) of devices; nodes, the number of
    machines; alone and several, "argument=pattern" for values that decide it.
    """
    facts = call.api.facts
    if has_setting(call, facts.get("alone", ())):
        return "one"
    counts = {count for spec in facts.get("counts", ()) for count in _counts(call, spec)}
    nodes = {count for count in _counts(call, facts.get("nodes", "")) if count > 1}
    if nodes or (counts and min(counts) > 1):
        return "several"
    if counts and max(counts) <= 1:
        return "one"
    if not counts and has_setting(call, facts.get("several", ())):
        return "several"
    return "unseen"


def _setting(call: Call, name: str) -> Value | None:
    """An argument of a constructor; "config.workers" is one of the object given as `config`.

    Options that are given as they were parsed, Trainer.from_argparse_args(options), are arguments.
    """
    first, _, rest = name.partition(".")
    value = call.arguments.named.get(first)
    if value is None and call.arguments.positional:
        options = resolve(call.arguments.positional[0], call.run.path)
        if isinstance(options, Object) and isinstance(options.cls, Name):
            value = options.attributes.get(first) if options.cls.name == NAMESPACE else None
    if rest and value is not None:
        value = resolve(value, call.run.path)
        made = value.attributes.get("#settings") if isinstance(value, Object) else None
        return _setting(made.value, rest) if isinstance(made, Const) else None
    return value


def _counts(call: Call, name: str) -> list[int]:
    value = _setting(call, name)
    if value is None:
        return []
    return [count for leaf, _ in leaves(value, call.run.path) for count in _count(leaf)]


def _count(leaf: Value) -> list[int]:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        return [count for count in _count(leaf.default) if count > 1]  # an option can be raised
    if isinstance(leaf, Sequence):
        return [] if leaf.open else [len(leaf.items)]
    if isinstance(leaf, Const) and isinstance(leaf.value, (int, str)):
        text = str(leaf.value)
        if "," in text:
            return [len([part for part in text.split(",") if part.strip()])]
        if text.isdigit():
            return [int(text)]
    return []


def has_setting(call: Call, patterns: list[str]) -> bool:
    """Whether an argument of a call has one of the values that "argument=pattern" tell of."""
    for pattern in patterns:
        name, _, wanted = pattern.partition("=")
        value = _setting(call, name)
        if value is None:
            continue
        if all(fnmatchcase(_text(leaf), wanted) for leaf, _ in leaves(value, call.run.path)):
            return True
    return False


def _text(leaf: Value) -> str:
    """A setting as it is written in a table: a constant, or the class of a strategy object."""
    if isinstance(leaf, Unknown) and leaf.default is not None:
        return _text(leaf.default)
    if isinstance(leaf, Const):
        return str(leaf.value).lower()
    if isinstance(leaf, Object) and isinstance(leaf.cls, Name):
        return leaf.cls.name.rpartition(".")[2].lower()
    return ""


# -- the program's modules and hooks ------------------------------------------------------------


def _given(call: Call) -> list[Value]:
    """What the framework was given to work with, here and when its object was made."""
    maker = _maker(call)
    given = [call.receiver, *call.arguments.positional, *call.arguments.named.values()]
    if maker is not call:
        given += [*maker.arguments.positional, *maker.arguments.named.values()]
    found: list[Value] = []
    for value in given:
        if value is not None:
            value = resolve(value, call.run.path)
            found += value.items if isinstance(value, Sequence) else (value,)
    return found


def _move_modules(call: Call) -> None:
    def move(value: Value) -> None:
        if kind_of(value) == "module":
            _on_own_device(call, value)

    for value in _given(call):
        split(call.run, value, move)


def _on_own_device(call: Call, value: Value) -> Value:
    if kind_of(value) is None:
        return value
    device = Device("cuda", named_value(call.run, "local_rank"))
    return moved(call.run, value, device, call.place)


def _run_methods(call: Call, method: str) -> None:
    def run_method(target: Value) -> None:
        if isinstance(target, Object) and isinstance(target.cls, Class):
            found = class_attribute(target.cls, method)
            if isinstance(found, Function):
                call_value(call.run, Method(target, found), Arguments(open=True), call.place)

    for value in _given(call):
        split(call.run, value, run_method)


def _run_functions(call: Call, name: str) -> None:
    """Trainer(compute_metrics=measure): the functions given as an argument, one or a list."""
    given = resolve(_setting(_maker(call), name) or Unknown(), call.run.path)
    for value in given.items if isinstance(given, Sequence) else (given,):
        function = resolve(value, call.run.path)
        if isinstance(function, (Function, Method, Partial)):
            call_value(call.run, function, Arguments(open=True), call.place)


def _run_kept(call: Call, receiver: Object) -> None:
    """Engine(step).run(data): the function that the object was made with."""
    kept = receiver.attributes.get("#kept")
    if isinstance(kept, (Function, Method)):
        call_value(call.run, kept, Arguments(open=True), call.place)


def gives_back(call: Call) -> Value:
    """accelerator.prepare(model, optimizer, loader) gives its arguments back, moved."""
    values = tuple(resolve(value, call.run.path) for value in call.arguments.positional)
    if call.api.facts.get("moves"):
        move = partial(_on_own_device, call)
        values = tuple(split(call.run, value, move) for value in values)
    return values[0] if len(values) == 1 else Sequence(values, "tuple")


# -- decorators ---------------------------------------------------------------------------------


def rank_zero(call: Call) -> Value:
    """@rank_zero_only: on every other rank, calling the function does nothing."""
    return Native(lambda arguments, place: Const(None))
