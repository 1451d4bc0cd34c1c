"""Calls: of functions and classes of the program, of library calls, of what is not known."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ddpdoctor.lint.attributes import AttributeOfUnknown, bind_method, class_attribute
from ddpdoctor.lint.branches import split
from ddpdoctor.lint.definitions import field_default
from ddpdoctor.lint.paths import or_else, resolve
from ddpdoctor.lint.run import MOST_DEPTH, Cost, Frame, Run
from ddpdoctor.lint.values import (
    Arguments,
    Attribute,
    Class,
    Const,
    Dict,
    Function,
    Method,
    Name,
    Native,
    Object,
    Partial,
    Place,
    Scope,
    Sequence,
    Unknown,
    Value,
)


def call(run: Run, callee: Value, arguments: Arguments, place: Place) -> Value:
    """The result of a call, with its events. Raises Dead where the callee ends the program."""
    return split(run, callee, lambda c: _call(run, c, arguments, place))


def _call(run: Run, callee: Value, arguments: Arguments, place: Place) -> Value:
    from ddpdoctor.lint.effects import call_library, call_method, escape

    if isinstance(callee, Name):
        return call_library(run, callee.name, arguments, place)
    if isinstance(callee, Function):
        return call_function(run, callee, arguments, place)
    if isinstance(callee, Method):
        return _call_method(run, callee, arguments, place)
    if isinstance(callee, Class):
        return instantiate(run, callee, arguments, place)
    if isinstance(callee, Attribute):
        return call_method(run, callee.receiver, callee.name, arguments, place)
    if isinstance(callee, AttributeOfUnknown):
        return call_method(run, callee.receiver, callee.attribute, arguments, place)
    if isinstance(callee, Partial):
        first = callee.arguments
        merged = Arguments(
            (*first.positional, *arguments.positional),
            {**first.named, **arguments.named},
            first.open or arguments.open,
        )
        return call(run, callee.function, merged, place)
    if isinstance(callee, Native):
        return callee.call(arguments, place)
    if isinstance(callee, Object):
        return call_object(run, callee, arguments, place)
    if isinstance(callee, Unknown):
        escape(run, _imported_as(callee), arguments, place)
    return Unknown()


def _imported_as(callee: Unknown) -> str:
    """The full name of something that the program imports from a file that is not there."""
    key = callee.key
    if isinstance(key, tuple) and key[0] == "import":
        return f"{key[1]}.{key[2]}"
    return ""


def _call_method(run: Run, method: Method, arguments: Arguments, place: Place) -> Value:
    bound = Arguments(
        (method.receiver, *arguments.positional),
        arguments.named,
        arguments.open,
        arguments.loaded,
    )
    if isinstance(method.function, Function):
        return call_function(run, method.function, bound, place, receiver=method.receiver)
    return call(run, method.function, bound, place)


def call_object(run: Run, receiver: Object, arguments: Arguments, place: Place) -> Value:
    """instance(...): its __call__, or a module's forward."""
    from ddpdoctor.lint.commands import run_group
    from ddpdoctor.lint.effects import call_method
    from ddpdoctor.lint.nn_modules import called_module

    if "#kernel" in receiver.attributes:
        run.record("context", "kernel launch", place, arguments=arguments, only_started=False)
        return Unknown()
    if "#commands" in receiver.attributes:
        return run_group(run, receiver, place)
    wrapped = receiver.attributes.get("#wrapped")
    if wrapped is not None:
        return call(run, wrapped, arguments, place)
    if isinstance(receiver.cls, Class):
        for name in ("__call__", "forward"):
            found = class_attribute(receiver.cls, name)
            if found is not None:
                function = bind_method(run, receiver, resolve(found, run.path), place)
                result = call(run, function, arguments, place)
                if name == "forward":
                    run.ran_forward.add(id(receiver))
                return result
    elif isinstance(receiver.cls, Name) and f"{receiver.cls.name}.__call__" in run.apis.calls:
        return call_method(run, receiver, "__call__", arguments, place)
    return called_module(run, receiver, arguments, place)


def call_function(
    run: Run,
    function: Function,
    arguments: Arguments,
    place: Place,
    *,
    receiver: Value | None = None,
) -> Value:
    """Runs a function of the program with these arguments; unknown once it costs too much."""
    active = sum(1 for frame in run.frames if frame.function is function)
    if active > 1 or len(run.frames) > MOST_DEPTH:
        return Unknown()
    cost = run.costs.setdefault(id(function.body), Cost())
    if cost.too_high():
        return Unknown()
    cost.entries += 1
    before = run.steps
    variables = bind_parameters(run, function, arguments)
    frame = Frame(
        function.module,
        Scope(variables, function.scope),
        function=function,
        call=place,
        owner=function.owner,
        receiver=receiver,
    )
    yielded: list[Value] = []

    def collect(value: Value) -> Value:
        yielded.append(value)
        return Unknown()

    frame.yields = collect
    try:
        return run_frame(run, frame, yielded)
    finally:
        cost.steps += run.steps - before
        if not frame.scope.captured:
            run.heap.forget(variables)
            run.heap.forget(frame.cell)


def run_frame(run: Run, frame: Frame, yielded: list[Value] | None = None) -> Value:
    from ddpdoctor.lint.expressions import evaluate
    from ddpdoctor.lint.statements import execute

    function = frame.function
    assert function is not None
    run.frames.append(frame)
    try:
        if isinstance(function.body, cst.BaseExpression):
            return evaluate(run, function.body)
        execute(run, function.body)
    finally:
        run.frames.pop()
    if yielded:
        return Sequence(tuple(yielded[:8]), "generator", open=True)
    result = frame.cell.get("return")
    return Const(None) if result is None else or_else(result, run.path, lambda: Const(None))


def bind_parameters(run: Run, function: Function, arguments: Arguments) -> dict[object, Value]:
    """The parameters' values: what is given, else the default, else unknown."""
    parameters = function.parameters
    positional = [*parameters.posonly_params, *parameters.params]
    variables: dict[object, Value] = {}
    named = dict(arguments.named)
    for position, parameter in enumerate(positional):
        name = parameter.name.value
        if position < len(arguments.positional):
            variables[name] = arguments.positional[position]
        elif name in named:
            variables[name] = named.pop(name)
        else:
            variables[name] = _default(function, name, arguments)
    for parameter in parameters.kwonly_params:
        name = parameter.name.value
        if name in named:
            variables[name] = named.pop(name)
        else:
            variables[name] = _default(function, name, arguments)
    if isinstance(parameters.star_arg, cst.Param):
        rest = arguments.positional[len(positional) :]
        variables[parameters.star_arg.name.value] = Sequence(rest, "tuple", open=arguments.open)
    if parameters.star_kwarg is not None:
        variables[parameters.star_kwarg.name.value] = Dict(named, open=arguments.open)
    return variables


def _default(function: Function, name: str, arguments: Arguments) -> Value:
    if arguments.open:
        return arguments.not_seen()
    default = function.defaults.get(name)
    return Unknown() if default is None else default


def instantiate(run: Run, cls: Class, arguments: Arguments, place: Place) -> Value:
    """Makes an instance through __new__, if the class has it, and initialises it."""
    new = class_attribute(cls, "__new__")
    if new is None:
        return _initialise(run, _allocate(run, cls, place), cls, arguments, place)
    given = replace(arguments, positional=(cls, *arguments.positional))
    made = call(run, resolve(new, run.path), given, place)
    return split(run, made, lambda instance: _initialise(run, instance, cls, arguments, place))


def call_new(run: Run, arguments: Arguments, place: Place) -> Value:
    """object.__new__(cls), or type.__new__(metaclass, ...) where a class statement runs it."""
    cls = resolve(arguments.get(0, "cls") or Unknown(), run.path)
    making = run.classes_in_the_making[-1:]
    if making and (not isinstance(cls, Class) or making[0].metaclass is cls):
        return making[0]
    return _allocate(run, cls, place) if isinstance(cls, Class) else Unknown()


def _allocate(run: Run, cls: Class, place: Place) -> Object:
    from ddpdoctor.lint.nn_modules import new_module

    instance = Object(cls, {}, place)
    if any(run.apis.kind(base) == "module" for base in cls.library_bases()):
        new_module(run, instance)
    return instance


def _initialise(run: Run, instance: Value, cls: Class, arguments: Arguments, place: Place) -> Value:
    """Fills a dataclass by its fields, any other instance through __init__."""
    from ddpdoctor.lint.counters import forget_counts
    from ddpdoctor.lint.processes import PROCESSES, numbered

    if isinstance(instance, Unknown):
        instance = _allocate(run, cls, place)  # as nearly every __new__ does
    if not isinstance(instance, Object) or not isinstance(instance.cls, Class):
        return instance
    if cls not in instance.cls.ancestors():
        return instance  # __new__ gave something else, complete as it is
    cls = instance.cls
    if any(name in PROCESSES for name in cls.library_bases()):
        arguments = numbered(arguments)
    initializer = class_attribute(cls, "__init__")
    if initializer is not None:
        call(run, Method(instance, resolve(initializer, run.path)), arguments, place)
    elif cls.dataclass:
        _fill_fields(run, cls, instance, arguments, place)
    post = class_attribute(cls, "__post_init__")
    if post is not None and initializer is None:
        call(run, Method(instance, resolve(post, run.path)), Arguments(), place)
    _construct_library_base(run, cls, instance, arguments, place)
    forget_counts(run, cls, instance)
    return instance


def _fill_fields(
    run: Run, cls: Class, instance: Object, arguments: Arguments, place: Place
) -> None:
    for position, name in enumerate(cls.fields):
        given = arguments.get(position, name)
        if given is None and arguments.open:
            given = arguments.not_seen()
        elif given is None:
            given = field_default(run, cls, name, place)
        run.heap.write(instance.attributes, name, given)


_OF_CONSTRUCTORS = frozenset({"framework", "command_line", "group", "bind", "context"})


def _construct_library_base(
    run: Run, cls: Class, instance: Object, arguments: Arguments, place: Place
) -> None:
    """What a library's constructor does, it also does for the classes that derive from it."""
    from ddpdoctor.lint.effects import call_library

    for base in cls.library_bases():
        api = run.apis.call(run.apis.canonical(base))
        if api is not None and api.does in _OF_CONSTRUCTORS:
            made = call_library(run, base, arguments, place)
            if isinstance(made, Object):
                for name, value in made.attributes.items():
                    run.heap.write(instance.attributes, name, value)
