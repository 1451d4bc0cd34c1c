"""What a file calls the things of a library, and where an import that it lacks goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.walking import children


def spelled(full: str, path: Sequence[cst.CSTNode]) -> str | None:
    """How code at a place writes a dotted name of a library: "torch.cuda.set_device" may be
    `tc.set_device` there. None where the file has no import for it.

    path: the nodes from the file's tree to the place.
    """
    parts = full.split(".")
    heads = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    names = dict(_imported_before(path))
    for head in heads:
        for name, imported in names.items():
            if imported == head:
                return name + full[len(head) :]
    return None


def _imported_before(path: Sequence[cst.CSTNode]) -> Iterator[tuple[str, str]]:
    """(name, what it means) of the imports that have run when a place is reached: those of the
    module (all of it once inside a function), and those of the functions around it before it."""
    functions = [node for node in path if isinstance(node, cst.FunctionDef)]
    # A function that imports a name anywhere has it as a local variable.
    local = {name for function in functions for name in _names_imported_in(function)}
    for block, inner in pairwise(path):
        if isinstance(block, cst.Module):
            end = len(block.body) if functions else block.body.index(inner)
            for row, name, imported in _imports_of(block):
                if row < end and name not in local:
                    yield name, imported
        elif isinstance(block, cst.IndentedBlock):
            end = block.body.index(inner)
            for row, name, imported in _imports_of(block):
                if row < end:
                    yield name, imported


@lru_cache(maxsize=256)
def _imports_of(block: cst.Module | cst.IndentedBlock) -> list[tuple[int, str, str]]:
    """(index of the statement, name, what it means) of the imports right in a block."""
    return [
        (index, name, imported)
        for index, statement in enumerate(block.body)
        if isinstance(statement, cst.SimpleStatementLine)
        for small in statement.body
        for name, imported in _names_of(small)
    ]


@lru_cache(maxsize=256)
def _names_imported_in(function: cst.FunctionDef) -> set[str]:
    names: set[str] = set()
    stack: list[cst.CSTNode] = [function]
    while stack:
        inner = stack.pop()
        if isinstance(inner, (cst.Import, cst.ImportFrom)):
            names.update(name for name, _ in _names_of(inner))
        stack.extend(children(inner))
    return names


def _names_of(statement: cst.BaseSmallStatement) -> Iterator[tuple[str, str]]:
    if isinstance(statement, cst.Import):
        for alias in statement.names:
            dotted = dotted_name(alias.name)
            if alias.asname is not None:
                yield _text(alias.asname.name), dotted
            else:
                yield dotted.partition(".")[0], dotted.partition(".")[0]
    elif (
        isinstance(statement, cst.ImportFrom)
        and not isinstance(statement.names, cst.ImportStar)
        and statement.module is not None
        and not statement.relative
    ):
        for alias in statement.names:
            name = _text(alias.name) if alias.asname is None else _text(alias.asname.name)
            yield name, f"{dotted_name(statement.module)}.{_text(alias.name)}"


def import_lines(tree: cst.Module) -> tuple[list[cst.SimpleStatementLine], int]:
    """The first run of imports in a file, behind its docstring and __future__ imports, and the
    index in its body where that run starts."""
    start = 0
    if tree.body and tree.get_docstring(clean=False) is not None:
        start = 1
    while start < len(tree.body) and _top_of(tree.body[start]) == "__future__":
        start += 1
    lines: list[cst.SimpleStatementLine] = []
    for statement in tree.body[start:]:
        if not isinstance(statement, cst.SimpleStatementLine) or not all(
            isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body
        ):
            break
        lines.append(statement)
    return lines, start


def neighbour(lines: list[cst.SimpleStatementLine], name: str) -> tuple[cst.CSTNode, bool] | None:
    """The import beside which `import name` belongs, and whether it goes after that one."""
    ours = [line for line in lines if _is_standard(_top_of(line)) == _is_standard(name)]
    before = [
        line for line in ours if isinstance(line.body[0], cst.Import) and _top_of(line) < name
    ]
    if before:
        return before[-1], True
    if ours:
        return ours[0], False
    if not lines:
        return None
    return (lines[0], False) if _is_standard(name) else (lines[-1], True)


def same_section(line: cst.CSTNode, name: str) -> bool:
    """Whether two imports stand together, without a blank line between them."""
    return _is_standard(_top_of(line)) == _is_standard(name)


def dotted_name(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return f"{dotted_name(node.value)}.{node.attr.value}"
    return _text(node)


def _text(node: cst.CSTNode) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _top_of(line: cst.CSTNode) -> str:
    """The package that a line imports from first; "" for any other line and relative imports."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Import):
        return dotted_name(small.names[0].name).partition(".")[0]
    if isinstance(small, cst.ImportFrom) and small.module is not None and not small.relative:
        return dotted_name(small.module).partition(".")[0]
    return ""


def _is_standard(name: str) -> bool:
    return name in sys.stdlib_module_names
