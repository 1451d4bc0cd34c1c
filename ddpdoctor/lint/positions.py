"""Rows and columns of a few nodes of a file.

libcst's PositionProvider keeps a position for every node and triples the cost of a parse; findings
need a handful. This runs the same code generation and keeps only what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState

from ddpdoctor.findings import Location

Range = tuple[Location, Location]


def positions(tree: cst.Module, nodes: Iterable[cst.CSTNode]) -> dict[int, Range]:
    """Start and end (exclusive) of each node, without the whitespace around it, by id(node)."""
    state = _State(tree.default_indent, tree.default_newline)
    state.wanted = {id(node) for node in nodes}
    tree._codegen(state)
    return state.found


class _State(CodegenState):
    # The base class has slots; these come on top of them.
    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.wanted: set[int] = set()
        self.found: dict[int, Range] = {}
        self.row = 1
        self.column = 1
        self.starts: list[Location] = []

    def add_indent_tokens(self) -> None:
        self.column += sum(len(token) for token in self.indent_tokens)

    def add_token(self, value: str) -> None:
        lines = value.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        if len(lines) == 1:
            self.column += len(value)
        else:
            self.row += len(lines) - 1
            self.column = len(lines[-1]) + 1

    def pop_trailing_newline(self) -> None:
        """Nothing is kept here, so there is nothing to pop."""

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.starts.append(self._here())

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            start = self.starts.pop()
            self.found.setdefault(id(node), (start, self._here()))

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        if id(node) not in self.wanted:
            yield
            return
        start = self._here()
        try:
            yield
        finally:
            self.found[id(node)] = (start, self._here())

    def _here(self) -> Location:
        return Location(self.row, self.column)
