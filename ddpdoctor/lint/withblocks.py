"""with blocks: device blocks, generators as context managers, and everything else."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

import libcst as cst

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.calls import bind_parameters, call, run_frame
from ddpdoctor.lint.expressions import evaluate, evaluate_arguments
from ddpdoctor.lint.kinds.process import end_block, start_block
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Frame, Run
from ddpdoctor.lint.targets import assign
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Function,
    Method,
    Object,
    Scope,
    Unknown,
    Value,
)


def run_with(run: Run, items: Items[cst.WithItem], body: Callable[[], None]) -> None:
    """Runs the body inside every item, the first one outermost."""
    if not items:
        body()
        return
    item, rest = items[0], items[1:]

    def inner(value: Value) -> None:
        if item.asname is not None:
            assign(run, item.asname.name, value)
        run_with(run, rest, body)

    _enter(run, item.item, inner)


def _enter(run: Run, node: cst.BaseExpression, inner: Callable[[Value], None]) -> None:
    if isinstance(node, cst.Call):
        callee = resolve(evaluate(run, node.func), run.path)
        function, receiver = (
            (callee.function, callee.receiver) if isinstance(callee, Method) else (callee, None)
        )
        if isinstance(function, Function) and function.kind == "context":
            arguments = evaluate_arguments(run, node.args)
            if receiver is not None:
                arguments = Arguments(
                    (receiver, *arguments.positional), arguments.named, arguments.open
                )
            _through_generator(run, function, arguments, node, receiver, inner)
            return
    _enter_value(run, evaluate(run, node), node, inner)


def _through_generator(
    run: Run,
    function: Function,
    arguments: Arguments,
    node: cst.BaseExpression,
    receiver: Value | None,
    inner: Callable[[Value], None],
) -> None:
    """@contextmanager: the body runs where the function yields."""
    outer = run.frame
    entered = False

    def at_yield(value: Value) -> Value:
        nonlocal entered
        if entered:
            return Unknown()
        entered = True
        frames = run.frames
        run.frames = frames[: frames.index(outer) + 1]
        try:
            inner(value)
        finally:
            run.frames = frames
        return Const(None)

    frame = Frame(
        function.module,
        Scope(bind_parameters(run, function, arguments), function.scope),
        function=function,
        call=run.place(node),
        owner=function.owner,
        receiver=receiver,
    )
    frame.yields = at_yield
    run_frame(run, frame)
    if not entered:
        inner(Unknown())


def _enter_value(
    run: Run, value: Value, node: cst.BaseExpression, inner: Callable[[Value], None]
) -> None:

    value = resolve(value, run.path)
    place = run.place(node)
    if isinstance(value, Object) and isinstance(value.cls, Class):
        enter = class_attribute(value.cls, "__enter__") or class_attribute(value.cls, "__aenter__")
        leave = class_attribute(value.cls, "__exit__") or class_attribute(value.cls, "__aexit__")
        entered: Value = Unknown()
        if enter is not None:
            entered = call(run, Method(value, enter), Arguments(), place)
        inner(entered)
        if leave is not None:
            nothing = (Const(None), Const(None), Const(None))
            call(run, Method(value, leave), Arguments(nothing), place)
        return
    before = start_block(run, value, place)
    inner(value)
    end_block(run, before)
