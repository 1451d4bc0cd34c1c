"""Functions and classes as they are defined: defaults, decorators, fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import libcst as cst

from ddpdoctor.lint.attributes import class_attribute, subclasses
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Frame, Run
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Function,
    Name,
    Native,
    Object,
    Place,
    Scope,
    Sequence,
    Unknown,
    Value,
)


def define_function(run: Run, node: cst.FunctionDef) -> Value:
    from ddpdoctor.lint.expressions import evaluate

    owner = run.frame.owner if run.frame.function is None else None
    function: Value = Function(
        node.name.value,
        node.params,
        node.body,
        run.frame.module,
        _enclosing(run),
        evaluate_defaults(run, node.params),
        owner=owner,
        kind="static" if owner is not None and node.name.value == "__new__" else "function",
        origin=run.place(node),
    )
    for decorator in reversed(node.decorators):
        wrapper = evaluate(run, decorator.decorator)
        function = _decorate(run, wrapper, function, run.place(decorator))
    return function


def _enclosing(run: Run) -> Scope:
    """The scope a function closes over: not the body of the class that defines it."""
    scope = run.frame.scope
    if run.frame.owner is not None and run.frame.function is None and scope.outer is not None:
        return scope.outer
    return scope


_KINDS = {
    "builtins.property": "property",
    "functools.cached_property": "property",
    "abc.abstractproperty": "property",
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "contextlib.contextmanager": "context",
    "contextlib.asynccontextmanager": "context",
}


# Decorators of libraries that make something else of the function.
_CALLED = ("rank_zero", "takes_device", "command_group", "subcommand")


def _decorate(run: Run, wrapper: Value, function: Value, place: Place) -> Value:
    from ddpdoctor.lint.calls import call

    wrapper = resolve(wrapper, run.path)
    if isinstance(wrapper, Name) and wrapper.name in _KINDS and isinstance(function, Function):
        function.kind = _KINDS[wrapper.name]
        return function
    if isinstance(wrapper, (Function, Class)) or _has_call(wrapper):
        result = call(run, wrapper, Arguments((function,)), place)
        return function if isinstance(result, Unknown) else result
    if isinstance(wrapper, Object) and "#option" in wrapper.attributes:
        return _with_option(run, wrapper, function)
    if _does(run, wrapper) == "kernel":
        return Object(Name("kernel"), {"#kernel": function}, place)
    if _does(run, wrapper) in _CALLED or isinstance(wrapper, Native):
        return call(run, wrapper, Arguments((function,)), place)
    return function  # decorators of libraries keep what the function does


def _does(run: Run, wrapper: Value) -> str | None:
    """What the tables say of a decorator, plain or called with options."""
    from ddpdoctor.lint.effects import known_api

    name = wrapper.cls if isinstance(wrapper, Object) else wrapper
    api = None if name is None else known_api(run, name)
    return None if api is None else api.does


def _has_call(wrapper: Value) -> bool:
    return isinstance(wrapper, Object) and isinstance(wrapper.cls, Class)


def _with_option(run: Run, option: Object, function: Value) -> Value:
    """A click-style option: the parameter of its name has the option as its default."""
    name = option.attributes["#option"]
    if isinstance(function, Function) and isinstance(name, Const):
        run.heap.write(function.defaults, name.value, option.attributes["#value"])
    return function


def evaluate_defaults(run: Run, parameters: cst.Parameters) -> dict[str, Value]:
    from ddpdoctor.lint.expressions import evaluate

    return {
        parameter.name.value: evaluate(run, parameter.default)
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
        if parameter.default is not None
    }


def define_class(run: Run, node: cst.ClassDef) -> Value:
    from ddpdoctor.lint.expressions import evaluate
    from ddpdoctor.lint.metaclasses import tell_metaclass
    from ddpdoctor.lint.statements import execute

    bases = tuple(resolve(evaluate(run, base.value), run.path) for base in node.bases)
    cls = Class(node.name.value, bases, {}, run.frame.module, run.place(node))
    frame = Frame(run.frame.module, Scope(cls.namespace, _enclosing(run)), owner=cls)
    run.frames.append(frame)
    try:
        execute(run, node.body)
    finally:
        run.frames.pop()
    if any(name in _ENUMERATIONS for name in cls.library_bases()):
        _make_members(cls)
    _tell_base(run, cls)
    tell_metaclass(run, node, cls)
    decorators = [evaluate(run, decorator.decorator) for decorator in node.decorators]
    is_record = _is_record(run, decorators) or any(
        name in ("typing.NamedTuple", "typing_extensions.NamedTuple")
        for name in cls.library_bases()
    )
    inherited = [f for base in bases if isinstance(base, Class) for f in base.fields]
    if is_record or inherited:
        own = list(_annotated_names(node.body)) if is_record else []
        cls.fields = tuple(dict.fromkeys([*inherited, *own]))
        cls.dataclass = True
    for decorator in reversed(decorators):
        if isinstance(resolve(decorator, run.path), (Function, Class)):
            from ddpdoctor.lint.calls import call

            result = call(run, decorator, Arguments((cls,)), run.place(node))
            if isinstance(result, Class):
                cls = result
    return cls


def _tell_base(run: Run, cls: Class) -> None:
    """__subclasses__(), and __init_subclass__ of the next class above that has one: where
    registries are kept."""
    from ddpdoctor.lint.calls import call

    for base in cls.bases:
        if isinstance(base, Class):
            known = Sequence((*subclasses(base).items, cls))
            run.heap.write(base.namespace, "#subclasses", known)
    for base in cls.bases:
        told = class_attribute(base, "__init_subclass__") if isinstance(base, Class) else None
        if told is not None:
            call(run, told, Arguments((cls,)), cls.origin or run.place(run.frame.module.tree()))
            return


_ENUMERATIONS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag")


def _make_members(cls: Class) -> None:
    """The constants of an enumeration are members, each with its name and value."""
    for name, value in cls.namespace.items():
        if isinstance(value, Const) and not name.startswith("_"):
            attributes: dict[Any, Value] = {"value": value, "name": Const(name, value.origin)}
            cls.namespace[name] = Object(cls, attributes, value.origin)


_RECORDS = ("dataclasses.dataclass", "attr.s", "attr.define", "attrs.define", "attr.dataclass")


def _is_record(run: Run, decorators: Iterable[Value]) -> bool:
    for decorator in decorators:
        value = resolve(decorator, run.path)
        if isinstance(value, Name) and value.name in _RECORDS:
            return True
        if isinstance(value, Object) and isinstance(value.cls, Name) and value.cls.name in _RECORDS:
            return True
    return False


def _annotated_names(body: cst.BaseSuite) -> Iterable[str]:
    for line in body.body:
        if not isinstance(line, cst.SimpleStatementLine):
            continue
        for statement in line.body:
            if isinstance(statement, cst.AnnAssign) and isinstance(statement.target, cst.Name):
                yield statement.target.value


def field_default(run: Run, cls: Class, name: str, place: Place) -> Value:
    """The value a field gets when the constructor is not given one."""
    from ddpdoctor.lint.calls import call

    value = class_attribute(cls, name)
    if value is None:
        return Unknown()
    value = resolve(value, run.path)
    if isinstance(value, Object) and "#default" in value.attributes:
        return value.attributes["#default"]
    if isinstance(value, Object) and "#factory" in value.attributes:
        return call(run, value.attributes["#factory"], Arguments(), place)
    return value
