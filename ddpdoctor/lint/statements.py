"""Runs statements: blocks, branches, loops, definitions, assignments, imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Statements
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import libcst as cst

from ddpdoctor.lint import environment, operators
from ddpdoctor.lint.branches import Dead, fork
from ddpdoctor.lint.comparisons import negate
from ddpdoctor.lint.counters import forget_counters
from ddpdoctor.lint.definitions import define_class, define_function
from ddpdoctor.lint.expressions import binary, evaluate
from ddpdoctor.lint.iteration import MOST_ITEMS, items_of
from ddpdoctor.lint.matching import run_match
from ddpdoctor.lint.modules import import_from, import_module, import_star
from ddpdoctor.lint.paths import assume, map_value, truth
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.targets import assign, bind, delete
from ddpdoctor.lint.values import (
    FALSE,
    Arguments,
    Const,
    Name,
    Unknown,
    Value,
    now,
)
from ddpdoctor.lint.withblocks import run_with

MOST_STEPS_OF_ROUND = 40  # of a loop over many items: those that copy options take a few


def execute(run: Run, suite: cst.BaseSuite | cst.Module) -> None:
    """Runs a block in the current frame; how the path left it stands in the frame's cell.

    Raises Dead where every path ends the program.
    """
    _block(run, suite.body, 0)


def _block(run: Run, statements: Statements[Any], start: int) -> None:
    cell = run.frame.cell
    for position in range(start, len(statements)):
        if not run.spend():
            return
        statement = statements[position]
        known = _STATEMENTS.get(type(statement))
        if known is not None:
            known(run, statement)
        left = cell["left"]
        if left is FALSE:
            continue
        verdict = truth(left, run.path)
        if verdict is True:
            return
        if verdict is not False:
            # Some paths have left: the rest is run on those that have not.
            _rest(run, left, statements, position + 1)
            return


def _rest(run: Run, left: Value, statements: Statements[Any], start: int) -> None:
    fork(run, left, lambda: None, lambda: _block(run, statements, start))


def _simple_line(run: Run, node: cst.SimpleStatementLine) -> None:
    _block(run, node.body, 0)


def _leave(run: Run, how: str) -> None:
    run.heap.write(run.frame.cell, "left", Const(how))


def _return(run: Run, node: cst.Return) -> None:
    value = Const(None) if node.value is None else evaluate(run, node.value)
    run.heap.write(run.frame.cell, "return", value)
    _leave(run, "return")


def _raise(run: Run, node: cst.Raise) -> None:
    if node.exc is not None:
        evaluate(run, node.exc)
    raise Dead


def _assert(run: Run, node: cst.Assert) -> None:
    value = evaluate(run, node.test)
    if truth(value, run.path) is False:
        raise Dead
    run.path = {**run.path, **assume(value, True, run.path)}


def _expression(run: Run, node: cst.Expr) -> None:
    evaluate(run, node.value)


def _if(run: Run, node: cst.If) -> None:
    test = evaluate(run, node.test)

    def otherwise() -> None:
        if isinstance(node.orelse, cst.If):
            _if(run, node.orelse)
        elif node.orelse is not None:
            execute(run, node.orelse.body)

    fork(run, test, lambda: execute(run, node.body), otherwise)


@contextmanager
def _many_rounds(run: Run, body: cst.BaseSuite) -> Iterator[None]:
    """One round of a loop stands for all of them in here."""
    outer, run.loop = run.loop, now()
    forget_counters(run, body)
    try:
        yield
    finally:
        run.loop = outer


def _loop(run: Run, body: Callable[[], None], orelse: cst.Else | None) -> None:
    """One round of a loop's body, which break and continue end, and its else without a break."""
    body()
    left = run.frame.cell["left"]
    ended: Value = FALSE
    if left is not FALSE:
        ended = map_value(left, run.path, lambda how: negate(_is_continue(how)))
        stays = map_value(left, run.path, _only_return)
        run.heap.write(run.frame.cell, "left", stays)
    if orelse is not None:
        fork(run, ended, lambda: None, lambda: execute(run, orelse.body))


def _only_return(how: Value) -> Value:
    return how if isinstance(how, Const) and how.value == "return" else FALSE


def _for(run: Run, node: cst.For) -> None:
    iterated = evaluate(run, node.iter)
    items, complete = items_of(run, iterated)
    before = run.steps

    def rounds(position: int) -> None:
        """The rounds from one item on; those after a break or return are not run."""
        while position < len(items):
            if position >= MOST_ITEMS and run.steps - before > MOST_STEPS_OF_ROUND * position:
                return
            assign(run, node.target, items[position])
            execute(run, node.body)
            position += 1
            left = run.frame.cell["left"]
            if left is not FALSE:
                goes_on = map_value(left, run.path, _is_continue)
                run.heap.write(run.frame.cell, "left", map_value(left, run.path, _not_continue))
                fork(run, goes_on, partial(rounds, position), lambda: None)
                return

    with nullcontext() if complete else _many_rounds(run, node.body):
        _loop(run, lambda: rounds(0), node.orelse)


def _is_continue(how: Value) -> Value:
    left = isinstance(how, Const) and how.value in ("break", "return")
    return Const(not left)


def _not_continue(how: Value) -> Value:
    return FALSE if isinstance(how, Const) and how.value == "continue" else how


def _unless_left(run: Run, action: Callable[[], None]) -> None:
    fork(run, run.frame.cell["left"], lambda: None, action)


def _while(run: Run, node: cst.While) -> None:
    test = evaluate(run, node.test)
    if truth(test, run.path) is not False:
        with _many_rounds(run, node.body):
            _loop(run, lambda: execute(run, node.body), node.orelse)
    elif node.orelse is not None:
        execute(run, node.orelse.body)


def _with(run: Run, node: cst.With) -> None:
    run_with(run, node.items, lambda: execute(run, node.body))


def _try(run: Run, node: cst.Try | cst.TryStar) -> None:
    """The body is taken to succeed; handlers are run where it certainly raises."""
    try:
        try:
            execute(run, node.body)
        except Dead as dead:
            if dead.exits or not node.handlers:
                raise
            handler = node.handlers[0]
            if handler.name is not None:
                assign(run, handler.name.name, Unknown())
            execute(run, handler.body)
        else:
            if node.orelse is not None:
                _unless_left(run, lambda: execute(run, node.orelse.body))  # type: ignore[union-attr]
    finally:
        if node.finalbody is not None:
            _finally(run, node.finalbody)


def _finally(run: Run, node: cst.Finally) -> None:
    cell = run.frame.cell
    left = cell["left"]
    if left is not FALSE:
        run.heap.write(cell, "left", FALSE)
    execute(run, node.body)
    if cell["left"] is FALSE and left is not FALSE:
        run.heap.write(cell, "left", left)


def _function(run: Run, node: cst.FunctionDef) -> None:
    bind(run, node.name.value, define_function(run, node))


def _class(run: Run, node: cst.ClassDef) -> None:
    bind(run, node.name.value, define_class(run, node))


def _assign_statement(run: Run, node: cst.Assign) -> None:
    value = evaluate(run, node.value)
    for target in node.targets:
        assign(run, target.target, value)


def _annotated(run: Run, node: cst.AnnAssign) -> None:
    if node.value is not None:
        assign(run, node.target, evaluate(run, node.value))


def _augmented(run: Run, node: cst.AugAssign) -> None:
    old = evaluate(run, node.target)
    if isinstance(old, Name) and old.name == "os.environ":  # os.environ |= {...}
        given = Arguments((evaluate(run, node.value),))
        environment.call_method(run, "update", given, run.place(node))
        return
    kind = operators.OF_ASSIGNMENT.get(type(node.operator), cst.Add)
    assign(run, node.target, binary(run, kind, old, evaluate(run, node.value), run.place(node)))


def _global(run: Run, node: cst.Global) -> None:
    for item in node.names:
        run.frame.scope.declared[item.name.value] = run.frame.module.scope


def _nonlocal(run: Run, node: cst.Nonlocal) -> None:
    for item in node.names:
        scope = run.frame.scope.outer
        while scope is not None and item.name.value not in scope.variables:
            scope = scope.outer
        if scope is not None:
            run.frame.scope.declared[item.name.value] = scope


def _import(run: Run, node: cst.Import) -> None:
    for alias in node.names:
        dotted = _dotted(alias.name)
        module = import_module(run, dotted)
        if alias.asname is not None:
            assign(run, alias.asname.name, module)
        else:
            top = dotted.partition(".")[0]
            bind(run, top, module if top == dotted else import_module(run, top))


def _import_from(run: Run, node: cst.ImportFrom) -> None:
    package = "" if node.module is None else _dotted(node.module)
    level = len(node.relative)
    if isinstance(node.names, cst.ImportStar):
        import_star(run, package, level)
        return
    for alias in node.names:
        name = _dotted(alias.name)
        value = import_from(run, package, level, name)
        assign(run, alias.asname.name if alias.asname else alias.name, value)


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _type_alias(run: Run, node: Any) -> None:
    bind(run, node.name.value, Unknown())


_STATEMENTS: dict[type[cst.CSTNode], Callable[[Run, Any], None]] = {
    cst.SimpleStatementLine: _simple_line,
    cst.Expr: _expression,
    cst.Assign: _assign_statement,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.With: _with,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.Match: lambda run, node: run_match(run, node, partial(execute, run)),
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.Break: lambda run, node: _leave(run, "break"),
    cst.Continue: lambda run, node: _leave(run, "continue"),
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.Global: _global,
    cst.Nonlocal: _nonlocal,
    cst.Del: delete,
    cst.TypeAlias: _type_alias,
}
