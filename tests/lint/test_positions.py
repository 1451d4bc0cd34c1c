"""Rows and columns hold for every encoding, line end and blank that a file can have."""

from __future__ import annotations

import libcst as cst
import pytest

from ddpdoctor.findings import Location
from ddpdoctor.lint.positions import Lines, positions, source_text

FILES = {
    "unix": b"import os\nif x:\n    y = f(1)\n",
    "windows": b'import os\r\nif x:\r\n\ty = """a\r\nb"""; f(y)\r\n',
    "old Mac": b"import os\rif x:\r\ty = f(1)\r",
    "mixed line ends": b"import os\r\nif x:\n\ty = f(1)\r",
    "no last newline": b"import os\ny = f(1)",
    "byte order mark": b"\xef\xbb\xbfimport os\ny = f(1)\n",
    "declared encoding": b'# coding: latin-1\nx = "\xe9"; y = f(x)\n',
    "two bytes a character": '# coding: shift_jis\nx = "日本"; f(x)\n'.encode("shift_jis"),
    "beyond the first plane": 'x = "😀"; f(x)\n'.encode(),
    "form feeds": b"import os\n\x0c\ndef f():\n    pass\n\x0cx = 1; f(x)\n",
    "form feed before an indent": b"if x:\n\x0c    y = 1\n    z = f(y)\n",
    "blanks at the end": b"x = 1  \n   \n  # end\n\t\n",
    "separators in a string": 'x = "a\x0bb\u2028c\x85"; f(x)\n'.encode(),
    "continued lines": b"x = 1 + \\\n  f(2)\nif x: f(); g()\n",
    "decorators": b"@d(1)\n# why\nclass C(B): pass\n",
    "parentheses": b"y = (f)(\n  (1),  # one\n)\n",
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES.keys())
def test_a_node_is_found_where_it_stands(data: bytes) -> None:
    tree = cst.parse_module(data)
    nodes = [
        node
        for node in _all(tree)
        if isinstance(node, (cst.Name, cst.Call, cst.SimpleString, cst.Integer))
    ]
    assert nodes
    text = source_text(data, tree)
    lines = Lines(text)
    for node in nodes:
        start, end = positions(tree, nodes, text)[id(node)]
        found = text[lines.offset(start) : lines.offset(end)]
        code = tree.code_for_node(node.with_changes(lpar=(), rpar=()))
        assert found.strip() == found
        assert "".join(found.split()) == "".join(code.split())


def test_a_statement_starts_behind_its_indent_and_ends_before_its_comment() -> None:
    data = b"if x:\n\n    # about\n    f(x)  # why\n"
    tree = cst.parse_module(data)
    statement = next(node for node in _all(tree) if isinstance(node, cst.SimpleStatementLine))
    found = positions(tree, [statement], data.decode())
    assert found[id(statement)] == (Location(4, 5), Location(4, 9))


def test_only_the_wanted_nodes_are_kept() -> None:
    tree = cst.parse_module("f(a, b)\n")
    names = [node for node in _all(tree) if isinstance(node, cst.Name)]
    assert set(positions(tree, names[:1], tree.code)) == {id(names[0])}


@pytest.mark.parametrize("text", ["a\nb\r\nc\rd", "", "\n", "x"])
def test_a_place_and_its_offset_are_two_names_of_one_thing(text: str) -> None:
    lines = Lines(text)
    for offset in range(len(text) + 1):
        assert lines.offset(lines.location(offset)) == offset


def test_a_place_beyond_the_text_is_refused() -> None:
    for place in (Location(0, 1), Location(3, 1), Location(2, 3), Location(1, 0)):
        with pytest.raises(ValueError, match="no such place"):
            Lines("ab\nc").offset(place)


def _all(node: cst.CSTNode) -> list[cst.CSTNode]:
    return [node, *(inner for child in node.children for inner in _all(child))]
