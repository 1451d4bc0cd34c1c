"""Metaclasses of the program: __new__ and __init__ of one are told of every class, and often keep
a registry of them."""

from __future__ import annotations

from contextlib import suppress

import libcst as cst

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.branches import Dead
from ddpdoctor.lint.calls import call, call_function
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    Function,
    Method,
    Sequence,
    Value,
)


def tell_metaclass(run: Run, node: cst.ClassDef, cls: Class) -> None:
    """Runs what a class statement calls. super().__new__(...) there gives the class itself."""
    from ddpdoctor.lint.expressions import evaluate

    keywords = {
        arg.keyword.value: resolve(evaluate(run, arg.value), run.path)
        for arg in node.keywords
        if arg.keyword is not None
    }
    given = keywords.pop("metaclass", None)
    cls.metaclass = given if isinstance(given, Class) else _inherited(cls)
    if cls.metaclass is None:
        return
    described = (Const(cls.name), Sequence(cls.bases, "tuple"), Dict(cls.namespace))
    run.classes_in_the_making.append(cls)
    # Where we think that a check of the metaclass fails, it did not: the program goes on.
    with suppress(Dead):
        _make(run, cls, cls.metaclass, described, keywords)
    run.classes_in_the_making.pop()


def _inherited(cls: Class) -> Class | None:
    bases = (base for base in cls.bases if isinstance(base, Class))
    return next((base.metaclass for base in bases if base.metaclass is not None), None)


def _make(
    run: Run,
    cls: Class,
    metaclass: Class,
    described: tuple[Value, ...],
    keywords: dict[str, Value],
) -> None:
    place = cls.origin or run.place(run.frame.module.tree())
    new = class_attribute(metaclass, "__new__")
    if isinstance(new, Function):
        arguments = Arguments((metaclass, *described), keywords)
        call_function(run, new, arguments, place, receiver=metaclass)
    initialise = class_attribute(metaclass, "__init__")
    if isinstance(initialise, Function):
        call(run, Method(cls, initialise), Arguments(described, keywords), place)
