"""Programs whose functions become commands: each is run as if the user had chosen it."""

from __future__ import annotations

from collections.abc import Sequence as Values

from ddpdoctor.lint.branches import fork
from ddpdoctor.lint.options import call_with_options
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    MISSING,
    Class,
    Dict,
    Function,
    Method,
    Name,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)

_MOST_COMMANDS = 12


def run_component(run: Run, component: Value | None, place: Place) -> Value:
    """fire.Fire(component): a function, a table of them, a class or object whose methods are the
    commands; without one, the functions of the file. Of a record, makes one."""
    if component is None:
        here = run.frame.module
        functions = [
            value
            for name, value in here.variables.items()
            if isinstance(value, Function) and value.module is here and name[:1] != "_"
        ]
        return run_one_of(run, functions, place)
    component = resolve(component, run.path)
    if isinstance(component, Dict):
        return run_one_of(run, [v for v in component.entries.values() if v is not MISSING], place)
    if isinstance(component, Sequence):
        return run_one_of(run, component.items, place)
    made = component
    if not isinstance(component, Object):
        made = call_with_options(run, component, place)
    if isinstance(made, Object) and isinstance(made.cls, Class) and not made.cls.dataclass:
        run_one_of(run, [Method(made, function) for function in _public(made.cls)], place)
    return made


def run_one_of(run: Run, commands: Values[Value], place: Place) -> Value:
    """Runs each of the commands from the same state; which one the user chooses is not known."""
    if not commands:
        return Unknown()
    first, rest = resolve(commands[0], run.path), commands[1:_MOST_COMMANDS]
    if not rest:
        return call_with_options(run, first, place)
    return fork(
        run,
        Unknown(("command", place, len(rest))),
        lambda: call_with_options(run, first, place),
        lambda: run_one_of(run, rest, place),
    )


def _public(cls: Class) -> list[Function]:
    """The methods that a class and those it derives from offer."""
    found: dict[str, Function] = {}
    for ancestor in cls.ancestors():
        if isinstance(ancestor, Class):
            for name, value in ancestor.namespace.items():
                if isinstance(value, Function) and value.kind == "function" and name[:1] != "_":
                    found.setdefault(name, value)
    return list(found.values())


def new_group(name: str, place: Place, function: Value | None = None) -> Object:
    """typer.Typer(), or a function under @click.group(): commands are added to it."""
    attributes: dict[object, Value] = {"#commands": Sequence(())}
    if function is not None:
        attributes["#function"] = function
    return Object(Name(name), attributes, place)


def add_command(run: Run, group: Value | None, command: Value) -> Value:
    """Gives the command back, as a decorator does."""
    held = group.attributes.get("#commands") if isinstance(group, Object) else None
    if isinstance(held, Sequence):
        run.heap.write(held.cell, "items", (*held.items, command))
    return command


def run_group(run: Run, group: Object, place: Place) -> Value:
    """cli(): the group's own function, then one of its commands."""
    if "#function" in group.attributes:
        call_with_options(run, group.attributes["#function"], place)
    held = group.attributes["#commands"]
    return run_one_of(run, held.items if isinstance(held, Sequence) else (), place)
