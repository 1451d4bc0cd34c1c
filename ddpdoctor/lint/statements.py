"""Runs statements: blocks, branches, loops, definitions, assignments, imports."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Statements
from functools import partial
from typing import Any

import libcst as cst

from ddpdoctor.lint import checkpoints, environment, operators
from ddpdoctor.lint.attributes import (
    import_from,
    import_module,
    import_star,
    set_attribute,
)
from ddpdoctor.lint.branches import (
    Dead,
    assume,
    compare,
    fork,
    map_value,
    negate,
    resolve,
    split,
    truth,
)
from ddpdoctor.lint.definitions import define_class, define_function
from ddpdoctor.lint.expressions import MOST_ITEMS, binary, evaluate, items_of
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Const,
    Dict,
    Name,
    Object,
    Scope,
    Sequence,
    Unknown,
    Value,
)
from ddpdoctor.lint.withblocks import run_with

FALSE = Const(False)
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
        left = cell.get("left")
        if left is None or left is FALSE:
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


def _loop(run: Run, body: Callable[[], None], orelse: cst.Else | None) -> None:
    """One round of a loop's body, which break and continue end, and its else without a break."""
    body()
    left = run.frame.cell.get("left")
    ended: Value = FALSE
    if left is not None and left is not FALSE:
        ended = map_value(left, run.path, lambda how: negate(_is_continue(how)))
        stays = map_value(left, run.path, _only_return)
        run.heap.write(run.frame.cell, "left", stays)
    if orelse is not None:
        fork(run, ended, lambda: None, lambda: execute(run, orelse.body))


def _only_return(how: Value) -> Value:
    return how if isinstance(how, Const) and how.value == "return" else FALSE


def _for(run: Run, node: cst.For) -> None:
    iterated = evaluate(run, node.iter)
    items, _ = items_of(run, iterated)
    before = run.steps

    def rounds(position: int) -> None:
        """The rounds from one item on; those after a break or return are not run."""
        while position < len(items):
            if position >= MOST_ITEMS and run.steps - before > MOST_STEPS_OF_ROUND * position:
                return
            assign(run, node.target, items[position])
            execute(run, node.body)
            position += 1
            left = run.frame.cell.get("left", FALSE)
            if left is not FALSE:
                goes_on = map_value(left, run.path, _is_continue)
                run.heap.write(run.frame.cell, "left", map_value(left, run.path, _not_continue))
                fork(run, goes_on, partial(rounds, position), lambda: None)
                return

    _loop(run, lambda: rounds(0), node.orelse)


def _is_continue(how: Value) -> Value:
    left = isinstance(how, Const) and how.value in ("break", "return")
    return Const(not left)


def _not_continue(how: Value) -> Value:
    return FALSE if isinstance(how, Const) and how.value == "continue" else how


def _unless_left(run: Run, action: Callable[[], None]) -> None:
    fork(run, run.frame.cell.get("left", FALSE), lambda: None, action)


def _while(run: Run, node: cst.While) -> None:
    test = evaluate(run, node.test)
    if truth(test, run.path) is not False:
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
    left = cell.get("left", FALSE)
    if left is not FALSE:
        run.heap.write(cell, "left", FALSE)
    execute(run, node.body)
    if cell.get("left", FALSE) is FALSE and left is not FALSE:
        run.heap.write(cell, "left", left)


def _match(run: Run, node: cst.Match) -> None:
    subject = evaluate(run, node.subject)
    _cases(run, subject, node.cases, 0)


def _cases(run: Run, subject: Value, cases: Statements[cst.MatchCase], position: int) -> None:
    if position == len(cases):
        return
    case = cases[position]

    def fits() -> Value:
        return Const(True) if case.guard is None else evaluate(run, case.guard)

    matched = fork(run, _matches(run, subject, case.pattern), fits, lambda: FALSE)
    fork(
        run,
        matched,
        lambda: execute(run, case.body),
        lambda: _cases(run, subject, cases, position + 1),
    )


def _matches(run: Run, subject: Value, pattern: cst.MatchPattern) -> Value:
    """Whether a subject fits a pattern, as a value; binds the pattern's names."""
    if isinstance(pattern, cst.MatchValue):
        return compare("==", subject, evaluate(run, pattern.value), run.path)
    if isinstance(pattern, cst.MatchSingleton):
        return compare("is", subject, evaluate(run, pattern.value), run.path)
    if isinstance(pattern, cst.MatchOr):
        return _any_matches(run, subject, [each.pattern for each in pattern.patterns])
    if isinstance(pattern, cst.MatchAs):
        fits = Const(True) if pattern.pattern is None else _matches(run, subject, pattern.pattern)
        if pattern.name is not None:
            assign(run, pattern.name, subject)
        return fits
    parts: list[tuple[Value, cst.MatchPattern]] = []
    if isinstance(pattern, cst.MatchSequence):
        for position, element in enumerate(pattern.patterns):
            if isinstance(element, cst.MatchStar):
                return Unknown()
            item = operators.subscript(subject, Const(position), run.path)
            parts.append((item, element.value))
        if isinstance(subject, Sequence) and not subject.open and len(subject.items) != len(parts):
            return FALSE
    elif isinstance(pattern, cst.MatchMapping):
        for entry in pattern.elements:
            key = evaluate(run, entry.key)
            parts.append((operators.subscript(subject, key, run.path), entry.pattern))
    known = isinstance(subject, (Sequence, Dict))
    fits = _all_match(run, parts)
    return fits if known else Unknown()


def _any_matches(run: Run, subject: Value, patterns: Statements[cst.MatchPattern]) -> Value:
    if not patterns:
        return FALSE
    first = _matches(run, subject, patterns[0])
    rest = patterns[1:]
    return fork(run, first, lambda: Const(True), lambda: _any_matches(run, subject, rest))


def _all_match(run: Run, parts: Statements[tuple[Value, cst.MatchPattern]]) -> Value:
    if not parts:
        return Const(True)
    (item, pattern), rest = parts[0], parts[1:]
    first = _matches(run, resolve(item, run.path), pattern)
    return fork(run, first, lambda: _all_match(run, rest), lambda: FALSE)


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


def assign(run: Run, target: cst.CSTNode, value: Value) -> None:
    """Binds a target of any form: a name, an attribute, an item, or several of them."""
    if isinstance(target, cst.Name):
        bind(run, target.value, value)
    elif isinstance(target, cst.Attribute):
        place, name = run.place(target), target.attr.value
        receiver = evaluate(run, target.value)
        split(run, receiver, lambda each: set_attribute(run, each, name, value, place))
    elif isinstance(target, cst.Subscript):
        container = evaluate(run, target.value)
        split(run, container, lambda each: _assign_item(run, each, target, value))
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(run, target, value)
    elif isinstance(target, cst.StarredElement):
        assign(run, target.value, value)


def _unpack(run: Run, target: cst.Tuple | cst.List, value: Value) -> None:
    value = resolve(value, run.path)
    count = len(target.elements)
    stars = [i for i, e in enumerate(target.elements) if isinstance(e, cst.StarredElement)]
    for position, element in enumerate(target.elements):
        if isinstance(value, Sequence) and not value.open and not stars:
            items = value.items
            item: Value = items[position] if position < len(items) else Unknown()
        elif stars and isinstance(value, Sequence):
            item = _starred_item(value, position, stars[0], count)
        else:
            item = operators.subscript(value, Const(position), run.path)
        assign(run, element.value, item)


def _starred_item(value: Sequence, position: int, star: int, count: int) -> Value:
    after = count - star - 1
    items = value.items
    if position < star:
        return items[position] if position < len(items) else Unknown()
    if position == star:
        return Sequence(items[star : len(items) - after], open=value.open)
    offset = len(items) - (count - position)
    return items[offset] if 0 <= offset < len(items) and not value.open else Unknown()


def _assign_item(run: Run, container: Value, target: cst.Subscript, value: Value) -> None:
    part = target.slice[0].slice
    if len(target.slice) != 1 or not isinstance(part, cst.Index):
        return
    key = resolve(evaluate(run, part.value), run.path)
    if isinstance(container, Name) and container.name == "os.environ":
        environment.write(run, key, value, run.place(target))
    elif isinstance(key, Const) and isinstance(container, Dict):
        _write_item(run, container.entries, key.value, value)
    elif isinstance(container, Dict):
        container.open = True  # from now on it may hold any key
        checkpoints.keep(run, container, value)
    elif isinstance(key, Const) and isinstance(container, Object):
        _write_item(run, container.attributes, key.value, value)
    elif isinstance(container, Object):
        checkpoints.keep(run, container, value)
    elif isinstance(container, Sequence):
        _write_position(run, container, key, value)


def _write_item(run: Run, cell: dict[Any, Value], key: Any, value: Value) -> None:
    try:
        hash(key)
    except TypeError:
        return
    run.heap.write(cell, key, value)


def _write_position(run: Run, container: Sequence, key: Value, value: Value) -> None:
    items = list(container.items)
    number = key.value if isinstance(key, Const) else None
    if isinstance(number, int) and -len(items) <= number < len(items):
        items[number] = value
        run.heap.write(container.cell, "items", tuple(items))


def bind(run: Run, name: str, value: Value) -> None:
    scope: Scope = run.frame.scope
    scope = scope.declared.get(name, scope)
    old = scope.variables.get(name)
    if old is None or old is not value:
        run.heap.write(scope.variables, name, value)


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


def _delete(run: Run, node: cst.Del) -> None:
    targets = node.target.elements if isinstance(node.target, cst.Tuple) else [node]
    for element in targets:
        target = element.value if isinstance(element, cst.Element) else node.target
        if isinstance(target, cst.Name):
            run.heap.write(run.frame.scope.variables, target.value, MISSING)
        elif isinstance(target, cst.Subscript):
            _delete_item(run, target)


def _delete_item(run: Run, target: cst.Subscript) -> None:
    container = resolve(evaluate(run, target.value), run.path)
    part = target.slice[0].slice
    if not isinstance(part, cst.Index):
        return
    key = resolve(evaluate(run, part.value), run.path)
    if isinstance(container, Name) and container.name == "os.environ":
        environment.unset(run, key)
    elif isinstance(container, Dict) and isinstance(key, Const):
        _write_item(run, container.entries, key.value, MISSING)


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
    cst.Match: _match,
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
    cst.Del: _delete,
    cst.TypeAlias: _type_alias,
}
