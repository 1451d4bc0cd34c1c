"""Rows and columns of a few nodes of a file.

libcst's PositionProvider keeps a position for every node and triples the cost of a parse; findings
need a handful. This runs the same code generation and keeps only what was asked for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState

from ddpdoctor.findings import Location

Range = tuple[Location, Location]
_Span = tuple[int, int]

_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    """The lines of a text, as Python's tokenizer counts them: ended by LF, CR LF or CR alone."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def location(self, offset: int) -> Location:
        row = bisect_right(self._starts, offset)
        return Location(row, offset - self._starts[row - 1] + 1)

    def offset(self, location: Location) -> int:
        """Raises ValueError for a place that the text does not have."""
        if not 1 <= location.row <= len(self._starts) or location.column < 1:
            raise ValueError(f"no such place: {location}")
        offset = self._starts[location.row - 1] + location.column - 1
        if offset > len(self.text):
            raise ValueError(f"no such place: {location}")
        return offset

    def start_of(self, offset: int) -> int:
        """Where the line of that offset starts."""
        return self._starts[bisect_right(self._starts, offset) - 1]


def positions(tree: cst.Module, nodes: Iterable[cst.CSTNode], text: str) -> dict[int, Range]:
    """Start and end (exclusive) of each node, without the whitespace around it, by id(node).

    text: what the tree was parsed from.
    """
    state = _State(tree.default_indent, tree.default_newline, {id(node) for node in nodes})
    tree._codegen(state)
    lines = Lines(text)
    spans = _in_source("".join(state.tokens), text, state.found)
    return {
        node: (lines.location(start), lines.location(end)) for node, (start, end) in spans.items()
    }


def source_text(data: bytes, tree: cst.Module) -> str:
    """The text of a file's bytes, without a byte order mark, line ends as they are."""
    return data.decode(tree.encoding)


def _in_source(code: str, text: str, spans: dict[int, _Span]) -> dict[int, _Span]:
    """The spans in the source, given those in the code that the tree generates.

    libcst 1.9 loses some blank lines, form feeds and a last CR, so that the two can differ in
    whitespace. Every node starts with a character that is none and ends with one: these agree.
    """
    if not text.startswith(code.rstrip("\r\n")):
        solid = [offset for offset, character in enumerate(text) if not character.isspace()]
        counted = [0]
        for character in code:
            counted.append(counted[-1] + (not character.isspace()))
        if counted[-1] == len(solid):
            return {
                node: (solid[counted[start]], solid[counted[end] - 1] + 1)
                if counted[start] < counted[end]
                else (0, 0)
                for node, (start, end) in spans.items()
            }
    return spans


class _State(CodegenState):
    # The base class has slots; these come on top of them.
    def __init__(self, default_indent: str, default_newline: str, wanted: set[int]) -> None:
        super().__init__(default_indent, default_newline)
        self.wanted = wanted
        self.found: dict[int, _Span] = {}
        self.length = 0
        self.starts: list[int] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.length += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.starts.append(self.length)

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.found.setdefault(id(node), (self.starts.pop(), self.length))

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
        start = self.length
        try:
            yield
        finally:
            self.found[id(node)] = (start, self.length)
