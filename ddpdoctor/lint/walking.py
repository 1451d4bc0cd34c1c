"""Walks over syntax trees: libcst's own `children` and visitors rebuild each node they pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import libcst as cst


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes right below a node, in no order to rely on."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


def within(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it, in no order to rely on."""
    stack = [node]
    while stack:
        inner = stack.pop()
        yield inner
        stack.extend(children(inner))


def parents(tree: cst.Module) -> dict[int, cst.CSTNode]:
    """The node above each node, by id(node)."""
    return {id(child): node for node in within(tree) for child in children(node)}


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
