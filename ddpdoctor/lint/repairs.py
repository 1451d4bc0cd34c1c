"""Repairs: what a rule wants changed, in terms of nodes, and the edits that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Union

import libcst as cst

from ddpdoctor.findings import Applicability, Edit, Fix, Location
from ddpdoctor.lint.positions import Range
from ddpdoctor.lint.sources import Module
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Place

Find = Callable[[Place], Range]

LOCAL_RANK = 'int(os.environ.get("LOCAL_RANK", 0))'


@dataclass(frozen=True)
class Replace:
    """Write other code in place of a node."""

    place: Place
    code: str


@dataclass(frozen=True)
class InsertBefore:
    """Write a statement on a line of its own before the statement that holds a node."""

    place: Place
    code: str


@dataclass(frozen=True)
class AddArgument:
    """Add an argument at the end of a call."""

    place: Place
    code: str


Change = Union[Replace, InsertBefore, AddArgument]


@dataclass(frozen=True)
class Repair:
    """Changes that belong together. imports: modules that the new code names."""

    message: str
    changes: tuple[Change, ...]
    safe: bool = False
    imports: tuple[str, ...] = ()

    def places(self) -> Iterable[Place]:
        for change in self.changes:
            yield change.place

    def nodes(self) -> Iterable[Place]:
        """Every node whose position the edits need."""
        for change in self.changes:
            module, node = change.place.module, change.place.node
            yield change.place
            if isinstance(change, InsertBefore):
                yield Place(module, statement_around(module, node))
            if isinstance(change, AddArgument) and isinstance(node, cst.Call) and node.args:
                yield Place(module, node.args[-1].value)
        for module in {change.place.module for change in self.changes}:
            if self.imports:
                last = _last_import(module.tree())
                if last is not None:
                    yield Place(module, last)

    def edits(self, find: Find) -> Fix:
        edits: list[Edit] = []
        for change in self.changes:
            edits.append(_edit(change, find))
        for module in dict.fromkeys(change.place.module for change in self.changes):
            edits.extend(_import_edits(module, self.imports, find))
        kind = Applicability.SAFE if self.safe else Applicability.UNSAFE
        return Fix(kind, self.message, tuple(edits))


def _edit(change: Change, find: Find) -> Edit:
    module, node = change.place.module, change.place.node
    filename = str(module.path)
    if isinstance(change, Replace):
        start, end = find(change.place)
        return Edit(filename, start, end, change.code)
    if isinstance(change, InsertBefore):
        statement = statement_around(module, node)
        start, _ = find(Place(module, statement))
        newline = module.tree().default_newline
        indent = " " * (start.column - 1)
        line = _line_of(module, start.row)
        if line[: start.column - 1].isspace():
            indent = line[: start.column - 1]
        if line[: start.column - 1].strip():  # `if x: init()` on one line
            return Edit(filename, start, start, f"{change.code}; ")
        return Edit(filename, start, start, f"{change.code}{newline}{indent}")
    return _add_argument(change, find)


def _add_argument(change: AddArgument, find: Find) -> Edit:
    module, node = change.place.module, change.place.node
    assert isinstance(node, cst.Call)
    filename = str(module.path)
    if node.args:
        _, end = find(Place(module, node.args[-1].value))
        return Edit(filename, end, end, f", {change.code}")
    _, end = find(change.place)
    closing = Location(end.row, end.column - 1)
    return Edit(filename, closing, closing, change.code)


def _line_of(module: Module, row: int) -> str:
    lines = module.tree().code.splitlines()
    return lines[row - 1] if row <= len(lines) else ""


def _import_edits(module: Module, names: tuple[str, ...], find: Find) -> list[Edit]:
    tree = module.tree()
    missing = [name for name in names if not _imports(tree, name)]
    if not missing:
        return []
    newline = tree.default_newline
    code = "".join(f"import {name}{newline}" for name in missing)
    last = _last_import(tree)
    if last is None:
        row = _first_code_row(tree)
        return [Edit(str(module.path), Location(row, 1), Location(row, 1), code)]
    start, _ = find(Place(module, last))
    return [Edit(str(module.path), start, start, code)]


def _imports(tree: cst.Module, name: str) -> bool:
    """Whether the module binds that name by a plain import at its top level."""
    for line in tree.body:
        if not isinstance(line, cst.SimpleStatementLine):
            continue
        for statement in line.body:
            if isinstance(statement, cst.Import):
                for alias in statement.names:
                    top = alias.name
                    while isinstance(top, cst.Attribute):
                        top = top.value  # type: ignore[assignment]
                    if alias.asname is None and isinstance(top, cst.Name) and top.value == name:
                        return True
                    if (
                        alias.asname is not None
                        and isinstance(alias.asname.name, cst.Name)
                        and alias.asname.name.value == name
                        and isinstance(alias.name, cst.Name)
                        and alias.name.value == name
                    ):
                        return True
    return False


def _last_import(tree: cst.Module) -> cst.CSTNode | None:
    """The first plain import at the top level: new imports go before it, after __future__."""
    for line in tree.body:
        if isinstance(line, cst.SimpleStatementLine):
            for statement in line.body:
                if isinstance(statement, cst.Import):
                    return line
                if isinstance(statement, cst.ImportFrom):
                    module = statement.module
                    if not (isinstance(module, cst.Name) and module.value == "__future__"):
                        return line
    return None


def _first_code_row(tree: cst.Module) -> int:
    return 1 if not tree.header else len(tree.header) + 1


def statement_around(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement that holds a node."""
    found = _search(module.tree(), node, None)
    return node if found is None else found


def _search(
    tree: cst.CSTNode, wanted: cst.CSTNode, statement: cst.CSTNode | None
) -> cst.CSTNode | None:
    stack: list[tuple[cst.CSTNode, cst.CSTNode | None]] = [(tree, statement)]
    while stack:
        node, around = stack.pop()
        if node is wanted:
            return around if around is not None else node
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            around = node
        elif isinstance(node, cst.BaseSmallStatement) and not isinstance(
            around, cst.SimpleStatementLine
        ):
            around = node  # `if x: init()` on one line
        stack.extend((child, around) for child in node.children)
    return None


def bind_process(event: Event) -> Repair | None:
    """Bind the process to its local rank before the process group opens: one line cures most."""
    call = event.place.node
    names = event.detail.get("local_names", ())
    rank = names[0] if names else LOCAL_RANK
    imports = ("torch",) if names else ("os", "torch")
    if not isinstance(call, cst.Call):
        return None
    return Repair(
        "Bind every rank to its own GPU before the process group opens",
        (InsertBefore(event.place, f"torch.cuda.set_device({rank})"),),
        safe=not names or names[0] != "rank",
        imports=imports,
    )


def bind_first_group(trace: Trace, event: Event) -> Repair | None:
    """The line that would cure an un-indexed use: where its process group is opened."""
    for group in trace.groups(event):
        if group.process is event.process and not group.detail.get("framework"):
            return bind_process(group)
    return None


def write_device(trace: Trace, event: Event, written: Place) -> Repair | None:
    """Write the rank's own device in place of a constant one."""
    node = written.node
    if isinstance(node, cst.SimpleString) and node.evaluated_value in _CARDS:
        if trace.binding(event) == "bound":
            return Repair(
                'Use the current device, "cuda"', (Replace(written, f"{node.quote}cuda{node.quote}"),)
            )
        code = f'f"cuda:{{{LOCAL_RANK_IN_TEXT}}}"'
        return Repair("Use the rank's own GPU", (Replace(written, code),), imports=("os",))
    if isinstance(node, cst.Integer):
        return write_index(trace, event, written)
    return None


_CARDS = tuple(f"cuda:{number}" for number in range(16))
LOCAL_RANK_IN_TEXT = LOCAL_RANK.replace('"', "'")


def write_index(trace: Trace, event: Event, written: Place) -> Repair | None:
    """Write the local rank in place of a constant index."""
    if not isinstance(written.node, cst.Integer):
        return None
    return Repair("Use the local rank", (Replace(written, LOCAL_RANK),), imports=("os",))


def environment_default(option: Place) -> Repair | None:
    """Let an add_argument("--local_rank") take its default from the environment."""
    call = option.node
    if not isinstance(call, cst.Call):
        return None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "default":
            change: Change = Replace(Place(option.module, arg.value), LOCAL_RANK)
            break
    else:
        change = AddArgument(option, f"default={LOCAL_RANK}")
    return Repair(
        "Take the default from the LOCAL_RANK that torchrun sets", (change,), imports=("os",)
    )


def device_of_input(made: Event) -> Repair | None:
    """Make a tensor of forward where the input is."""
    call = made.place.node
    if not isinstance(call, cst.Call) or made.detail.get("input") is None:
        return None
    code = f"device={made.detail['input']}.device"
    return Repair("Make it where the input is", (AddArgument(made.place, code),), safe=True)


def register_buffer(keep: Event) -> Repair | None:
    """`self.x = value` becomes `self.register_buffer("x", value, persistent=False)`."""
    module, target = keep.place.module, keep.place.node
    statement = statement_around(module, target)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    assignment = statement.body[0]
    if not isinstance(assignment, cst.Assign) or len(assignment.targets) != 1:
        return None
    if not isinstance(target, cst.Attribute) or keep.detail["what"] != "this tensor":
        return None
    value = module.tree().code_for_node(assignment.value)
    owner = module.tree().code_for_node(target.value)
    code = f'{owner}.register_buffer("{target.attr.value}", {value}, persistent=False)'
    return Repair("Keep it as a buffer", (Replace(Place(module, assignment), code),))
