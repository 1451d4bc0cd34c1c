"""Which names a piece of code gives a value to, and which have theirs at a place of a function."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.repairs import path_to
from ddpdoctor.lint.values import Place
from ddpdoctor.lint.walking import children


def names(node: cst.CSTNode) -> set[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if isinstance(inner, cst.Name):
            found.add(inner.value)
        stack.extend(children(inner))
    return found


def assigned(node: cst.CSTNode) -> set[str]:
    """The names that a statement may give a value to, attributes counted under their object."""
    found: set[str] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if isinstance(
            inner, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For)
        ):
            found |= names(inner.target)
        elif isinstance(inner, (cst.FunctionDef, cst.ClassDef)):
            found.add(inner.name.value)
        elif isinstance(inner, (cst.Import, cst.ImportFrom, cst.AsName)):
            found |= names(inner)
        stack.extend(children(inner))
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


def holds_at(place: Place, name: str) -> bool:
    """Whether a variable of the function (or file) around a place has its last value there: a
    parameter, or a name that is only given a value by statements that come before."""
    function = function_around(place)
    path = path_to(place.module, place.node)
    start = 0 if function is None else path.index(function) + 1
    before = isinstance(function, (cst.FunctionDef, cst.Lambda)) and name in _parameters(function)
    for block, holder in pairwise(path[start:]):
        if not isinstance(block, (cst.Module, cst.IndentedBlock)):
            if isinstance(block, cst.For) and holder is block.body:
                before = before or name in names(block.target)
            continue
        body: list[cst.CSTNode] = list(block.body)
        at = next(index for index, line in enumerate(body) if line is holder)
        if any(name in assigned(line) for line in body[at + 1 :]):
            return False
        before = before or any(name in assigned(line) for line in body[:at])
    return before


def _parameters(function: cst.FunctionDef | cst.Lambda) -> set[str]:
    given = function.params
    every = [*given.posonly_params, *given.params, *given.kwonly_params]
    return {parameter.name.value for parameter in every}
