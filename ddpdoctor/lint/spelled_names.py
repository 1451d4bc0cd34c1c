"""Names that a program puts together as text: getattr(module, f"init_{launcher}"), eval(name),
importlib.import_module("jobs." + name)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ddpdoctor.lint.attributes import get_attribute
from ddpdoctor.lint.branches import split
from ddpdoctor.lint.expressions import look_up
from ddpdoctor.lint.modules import absolute, import_module
from ddpdoctor.lint.operators import entry_at_choice
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    ModuleValue,
    Name,
    Object,
    Place,
    Text,
    Unknown,
    Value,
    either,
)


def attribute_by_text(
    run: Run, receiver: Value, name: Text, otherwise: Value | None, place: Place
) -> Value:
    """getattr(receiver, f"build_{part}", otherwise): each attribute whose name fits.

    Without `otherwise` the name is one of those, as the program goes on.
    """
    around = _around_the_unknown(name)
    names = _names_of(receiver)
    if around is None or names is None:
        return Unknown()
    before, unknown, after = around
    fitting = {
        each[len(before) : len(each) - len(after)]: each
        for each in names
        if each.startswith(before) and each.endswith(after) and len(each) > len(before + after)
    }
    entries = {part: get_attribute(run, receiver, each, place) for part, each in fitting.items()}
    return entry_at_choice(Dict(entries), unknown, otherwise)


def _around_the_unknown(name: Text) -> tuple[str, Unknown, str] | None:
    """The text in front of the only part that is not known, that part, and the text behind."""
    unknown = [part for part in name.parts if isinstance(part, Value)]
    if len(unknown) != 1 or not isinstance(unknown[0], Unknown):
        return None
    position = name.parts.index(unknown[0])
    before, after = name.parts[:position], name.parts[position + 1 :]
    return "".join(map(str, before)), unknown[0], "".join(map(str, after))


def _names_of(receiver: Value) -> set[str] | None:
    """The attributes of something of the program; None for anything else."""
    spaces: list[dict[Any, Value]] = []
    cls = receiver.cls if isinstance(receiver, Object) else receiver
    if isinstance(receiver, ModuleValue):
        spaces.append(receiver.module.variables)
    elif isinstance(cls, Class):
        spaces += [each.namespace for each in cls.ancestors() if isinstance(each, Class)]
    else:
        return None
    return {name for space in spaces for name in space if isinstance(name, str)}


def eval_name(run: Run, arguments: Arguments, place: Place) -> Value:
    """eval("models." + name): the value of a dotted name, as any other text is unknown."""
    text = arguments.get(0) or Unknown()
    return _of_text(text, lambda name: _of_dotted_name(run, name.strip(), place))


def import_by_name(run: Run, arguments: Arguments, place: Place) -> Value:
    """importlib.import_module("jobs." + name), import_module(f".{name}", package="jobs")."""
    package = resolve(arguments.get(1, "package") or Unknown(), run.path)

    def load(name: str) -> Value:
        if not name.startswith("."):
            return import_module(run, name)
        if not isinstance(package, Const) or not isinstance(package.value, str):
            return Unknown()
        below = name.lstrip(".")
        return import_module(run, absolute(package.value, below, len(name) - len(below)))

    return _of_text(resolve(arguments.get(0, "name") or Unknown(), run.path), load)


def locate(run: Run, arguments: Arguments, place: Place) -> Value:
    """pydoc.locate("package.module.Class")."""
    path = resolve(arguments.get(0, "path") or Unknown(), run.path)
    return _of_text(path, lambda dotted: by_dotted_path(run, dotted, place))


def by_dotted_path(run: Run, dotted: str, place: Place) -> Value:
    """What a dotted path leads to: the longest module there is, then its attributes."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if run.project.find(module, run.frame.module) is not None:
            value = import_module(run, module)
            for name in parts[length:]:
                value = resolve(get_attribute(run, value, name, place), run.path)
            return value
    return Name(run.apis.canonical(dotted))


def _of_text(text: Value, make: Callable[[str], Value]) -> Value:
    """What a text makes; of one with an option in it, what it makes by default."""
    if isinstance(text, Const) and isinstance(text.value, str):
        return make(text.value)
    if isinstance(text, Unknown):
        text = Text((text,))
    around = _around_the_unknown(text) if isinstance(text, Text) else None
    if around is None or not isinstance(around[1].default, Const):
        return Unknown()
    before, unknown, after = around
    default = around[1].default.value
    return either(("==", unknown.key, default), True, make(f"{before}{default}{after}"), Unknown())


def _of_dotted_name(run: Run, dotted: str, place: Place) -> Value:
    head, *rest = dotted.split(".")
    if not all(part.isidentifier() for part in (head, *rest)):
        return Unknown()
    value = look_up(run, head)
    for name in rest:
        value = split(run, value, partial(get_attribute, run, name=name, place=place))
    return value
