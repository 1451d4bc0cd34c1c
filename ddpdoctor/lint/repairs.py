"""Repairs: what a rule wants changed, in terms of nodes, and the edits that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import libcst as cst

from ddpdoctor.findings import Applicability, Edit, Fix, Location
from ddpdoctor.lint.imports import import_lines, neighbour, same_section
from ddpdoctor.lint.positions import Lines, Range, source_text
from ddpdoctor.lint.sources import Module
from ddpdoctor.lint.values import Place

Find = Callable[[Place], Range]


@dataclass(frozen=True)
class Replace:
    """Write other code in place of a node."""

    place: Place
    code: str


@dataclass(frozen=True)
class InsertBefore:
    """Write a statement before the statement that holds a node; guard: only if this holds."""

    place: Place
    code: str
    guard: str | None = None


@dataclass(frozen=True)
class AddArgument:
    """Add an argument at the end of a call."""

    place: Place
    code: str


@dataclass(frozen=True)
class Remove:
    """Take out the line of a statement that is alone on it and not alone in its block."""

    place: Place


Change = Replace | InsertBefore | AddArgument | Remove


@dataclass(frozen=True)
class Repair:
    """Changes that belong together. imports: modules that the new code names and the file lacks."""

    message: str
    changes: tuple[Change, ...]
    safe: bool = False
    imports: tuple[str, ...] = ()

    def nodes(self) -> Iterable[Place]:
        """Every node whose position the edits need."""
        for change in self.changes:
            module, node = change.place.module, change.place.node
            if isinstance(change, (InsertBefore, Remove)):
                yield Place(module, first_node(statement_around(module, node)))
                yield Place(module, statement_around(module, node))
            elif isinstance(change, AddArgument) and isinstance(node, cst.Call) and node.args:
                yield Place(module, node.args[-1])
            yield change.place
        for module in self._modules():
            for name in self.imports:
                yield Place(module, _import_anchor(module.tree(), name)[0])

    def edits(self, find: Find) -> Fix:
        edits = [_edit(change, find) for change in self.changes]
        for module in self._modules():
            edits.extend(_import_edits(module, self.imports, find))
        kind = Applicability.SAFE if self.safe else Applicability.UNSAFE
        return Fix(kind, self.message, tuple(edits))

    def _modules(self) -> Iterable[Module]:
        return dict.fromkeys(change.place.module for change in self.changes)


def path_to(module: Module, node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes from the file's tree down to a node, both included."""
    parents = module.parents()
    path = [node]
    while id(path[-1]) in parents:
        path.append(parents[id(path[-1])])
    return tuple(reversed(path))


def statement_around(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement that holds a node and that another can stand in front of.

    A simple statement that is not the first on its line counts as one; `elif` does not.
    """
    path = path_to(module, node)
    found: cst.CSTNode = node
    for above, inner in pairwise(path):
        if isinstance(inner, cst.SimpleStatementLine):
            found = inner
        elif isinstance(inner, cst.BaseSmallStatement):
            if not isinstance(above, cst.SimpleStatementLine) or above.body[0] is not inner:
                found = inner
        elif isinstance(inner, cst.BaseCompoundStatement) and not (
            isinstance(above, cst.If) and above.orelse is inner
        ):
            found = inner
    return found


def first_node(statement: cst.CSTNode) -> cst.CSTNode:
    """Where a statement starts: its first decorator if it has any."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and statement.decorators:
        return statement.decorators[0]
    return statement


def _edit(change: Change, find: Find) -> Edit:
    filename = str(change.place.module.path)
    if isinstance(change, Replace):
        start, end = find(change.place)
        return Edit(filename, start, end, change.code)
    if isinstance(change, InsertBefore):
        return _insertion(change, filename, find)
    if isinstance(change, Remove):
        start, end = find(change.place)
        return Edit(filename, Location(start.row, 1), Location(end.row + 1, 1), "")
    return _argument(change, filename, find)


def _insertion(change: InsertBefore, filename: str, find: Find) -> Edit:
    module = change.place.module
    tree = module.tree()
    statement = statement_around(module, change.place.node)
    start, _ = find(Place(module, first_node(statement)))
    lines = Lines(source_text(module.data(), tree))
    offset = lines.offset(start)
    indent = lines.text[lines.start_of(offset) : offset]
    if indent.strip():  # `if x: init()`, or `rank = 0; init()`
        code = change.code if change.guard is None else f"{change.guard} and {change.code}"
        return Edit(filename, start, start, f"{code}; ")
    indent = indent.replace("\f", "")
    new = [change.code]
    if change.guard is not None:
        new = [f"if {change.guard}:", f"{tree.default_indent}{change.code}"]
    code = "".join(f"{line}{tree.default_newline}{indent}" for line in new)
    return Edit(filename, start, start, code)


def _argument(change: AddArgument, filename: str, find: Find) -> Edit:
    node = change.place.node
    assert isinstance(node, cst.Call)
    if node.args:
        _, end = find(Place(change.place.module, node.args[-1]))
        return Edit(filename, end, end, f", {change.code}")
    _, end = find(change.place)
    closing = Location(end.row, end.column - 1)
    return Edit(filename, closing, closing, change.code)


def _import_anchor(tree: cst.Module, name: str) -> tuple[cst.CSTNode, bool]:
    """The statement that `import name` goes beside, and whether after it."""
    lines, start = import_lines(tree)
    beside = neighbour(lines, name)
    if beside is not None:
        return beside
    if start < len(tree.body):
        return first_node(tree.body[start]), False
    return tree.body[-1], True


def _import_edits(module: Module, names: tuple[str, ...], find: Find) -> list[Edit]:
    tree = module.tree()
    code: dict[Location, list[str]] = {}
    for name in names:
        anchor, after = _import_anchor(tree, name)
        start, end = find(Place(module, anchor))
        at = Location(end.row + 1, 1) if after else Location(start.row, 1)
        line = f"import {name}{tree.default_newline}"
        if not after and not same_section(anchor, name):
            line += tree.default_newline
        elif after and not same_section(anchor, name):
            line = tree.default_newline + line
        code.setdefault(at, []).append(line)
    return [Edit(str(module.path), at, at, "".join(lines)) for at, lines in code.items()]
