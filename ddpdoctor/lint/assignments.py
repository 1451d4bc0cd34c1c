"""Which names a piece of code gives a value to, and which have theirs at a place of a function."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.repairs import path_to
from ddpdoctor.lint.values import Place
from ddpdoctor.lint.walking import children, within


def names(node: cst.CSTNode) -> set[str]:
    return {inner.value for inner in within(node) if isinstance(inner, cst.Name)}


def assigned(node: cst.CSTNode) -> set[str]:
    """The names that a statement may give a value to, attributes counted under their object."""
    found: set[str] = set()
    for inner in within(node):
        if isinstance(
            inner, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For)
        ):
            found |= names(inner.target)
        elif isinstance(inner, (cst.FunctionDef, cst.ClassDef)):
            found.add(inner.name.value)
        elif isinstance(inner, (cst.Import, cst.ImportFrom, cst.AsName)):
            found |= names(inner)
    return found


def root(expression: str) -> str:
    """The variable in "args.gpu" and 'config["gpu"]'."""
    return expression.partition(".")[0].partition("[")[0]


def function_around(place: Place) -> cst.FunctionDef | cst.Lambda | None:
    """The function that a place is run in: a default or decorator is run outside of its own."""
    path = path_to(place.module, place.node)
    for node, inner in reversed(list(pairwise(path))):
        if isinstance(node, (cst.FunctionDef, cst.Lambda)) and inner is node.body:
            return node
    return None


def blocks_around(place: Place) -> list[tuple[list[cst.CSTNode], int]]:
    """The blocks of statements around a place in its function, the innermost first, and in each the
    position of the statement that holds it."""
    found: list[tuple[list[cst.CSTNode], int]] = []
    function = function_around(place)
    for block, holder in pairwise(path_to(place.module, place.node)):
        if block is function:
            found.clear()
        elif isinstance(block, (cst.Module, cst.IndentedBlock)):
            body: list[cst.CSTNode] = list(block.body)
            found.append((body, next(at for at, line in enumerate(body) if line is holder)))
    return found[::-1]


def holds_at(place: Place, name: str) -> bool:
    """Whether a variable of the function (or file) around a place has its last value there: a
    parameter, or a name that is only given a value by statements that come before."""
    later = any(
        name in assigned(line) for body, at in blocks_around(place) for line in body[at + 1 :]
    )
    return not later and not may_be_unset(place, name) and _has_value(place, name)


def _has_value(place: Place, name: str) -> bool:
    """Whether a name is a parameter, or statements that come before a place may give it a value."""
    return name in _parameters(function_around(place)) or any(
        name in assigned(line) for line in _lines_before(place)
    )


def _lines_before(place: Place) -> list[cst.CSTNode]:
    return [line for body, at in blocks_around(place) for line in body[:at]]


def can_stand_at(expression: Place, place: Place) -> bool:
    """Whether an expression of a function (or file) means the same at an earlier place of it, or
    one of a method that is about its `self` alone in another method of the class."""
    function, other = function_around(place), function_around(expression)
    if expression.module is not place.module:
        return False
    if other is not function:
        here, there = _self_of(place), _self_of(expression)
        if here is None or there is None or here[0] is not there[0] or here[1] != there[1]:
            return False
        return _variables(expression, other) <= {here[1]}
    return not any(
        may_be_unset(place, name) or _changes(name, place, expression)
        for name in _variables(expression, function)
    )


def _changes(name: str, start: Place, end: Place) -> bool:
    """Whether a name may get another value between two places of a function, or its first."""
    if not _has_value(start, name):
        return True
    last = path_to(end.module, end.node)
    for body, at in blocks_around(start):
        for line in body[at + 1 :]:
            if any(line is node for node in last):
                return not isinstance(line, cst.SimpleStatementLine) and name in assigned(line)
            if name in assigned(line):
                return True
    return True


def _variables(expression: Place, function: cst.FunctionDef | cst.Lambda | None) -> set[str]:
    """The variables of the function (or file) around an expression that it names."""
    body = expression.module.tree() if function is None else function.body
    return _read_in(expression.node) & (assigned(body) | _parameters(function))


def _read_in(node: cst.CSTNode) -> set[str]:
    """The variables in an expression: no names of attributes or of arguments."""
    if isinstance(node, cst.Name):
        return {node.value}
    inner: list[cst.CSTNode] = [node.value] if isinstance(node, _NAMED) else list(children(node))
    return {name for part in inner for name in _read_in(part)}


_NAMED = (cst.Attribute, cst.Arg)


def _self_of(place: Place) -> tuple[cst.ClassDef, str] | None:
    """The class whose method a place is in, and what the method calls its instance."""
    function = function_around(place)
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return None
    path = path_to(place.module, function)
    around = [node for node in path[:-1] if isinstance(node, (cst.ClassDef, cst.FunctionDef))]
    if not around or not isinstance(around[-1], cst.ClassDef):
        return None
    return around[-1], function.params.params[0].name.value


def is_one_of_several(place: Place) -> bool:
    """Whether a place is in one branch of its function, and another gives the same names a value,
    as where rank 0 has its own."""
    path = path_to(place.module, place.node)
    statement = next((n for n in reversed(path) if isinstance(n, cst.SimpleStatementLine)), None)
    mine = set() if statement is None else assigned(statement)
    function = function_around(place)
    for block, holder in reversed(list(pairwise(path))):
        if block is function:
            return False
        if isinstance(block, cst.If) and holder is not block.test:
            other = block.orelse if holder is block.body else block.body
            if other is not None and mine & assigned(other):
                return True
    return False


def may_be_unset(place: Place, name: str) -> bool:
    """Whether the statements that come before a place give a name a value on some paths only."""
    lines = _lines_before(place)
    return (
        any(name in assigned(line) for line in lines)
        and not any(_surely_assigns(line, name) for line in lines)
        and name not in _parameters(function_around(place))
    )


def _surely_assigns(line: cst.CSTNode, name: str) -> bool:
    if name not in assigned(line):
        return False
    if isinstance(line, cst.If):
        other = line.orelse
        return other is not None and all(
            _surely_assigns(branch, name) for branch in (line.body, other)
        )
    if isinstance(line, cst.Try):
        return all(name in assigned(part) for part in (line.body, *line.handlers))
    if isinstance(line, (cst.IndentedBlock, cst.With, cst.Else)):
        inner = line.body if isinstance(line, cst.IndentedBlock) else (line.body,)
        return any(_surely_assigns(part, name) for part in inner)
    return not isinstance(line, (cst.For, cst.While, cst.Match))


def _parameters(function: cst.FunctionDef | cst.Lambda | None) -> set[str]:
    if function is None:
        return set()
    given = function.params
    every = [*given.posonly_params, *given.params, *given.kwonly_params]
    return {parameter.name.value for parameter in every}
