"""A repair for an index that a file gives a name to, where no rank is known yet (`GPU = 0`, and the
ranks are processes that the program starts): write the rank wherever the name is read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.local_ranks import Code, own_rank_at, same_statement
from ddpdoctor.lint.repairs import Repair, Replace, path_to
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Place
from ddpdoctor.lint.walking import within


def rank_where_read(trace: Trace, event: Event, written: Place) -> Repair | None:
    """None unless the name has no other value, and each of its readers knows its rank."""
    module = written.module
    name = _name_given(written)
    changes: list[Replace] = []
    for node in _named(module.tree(), name or ""):
        use = Place(module, node)
        if same_statement(use, written) or _is_label(use):
            continue
        rank = _rank_at(trace, event, use) if _is_read(use) else None
        if rank is None or ('"' in rank.text and _is_in_text(use)):
            return None
        changes.append(Replace(use, rank.text))
    if not changes:
        return None
    return Repair("Use the local rank where the constant is read", tuple(changes))


def _name_given(written: Place) -> str | None:
    """The name that a statement of the file, and nothing else in it, gives to this value."""
    path = path_to(written.module, written.node)
    if len(path) != 4 or not isinstance(path[-2], cst.Assign) or len(path[-2].targets) != 1:
        return None
    target = path[-2].targets[0].target
    return target.value if isinstance(target, cst.Name) else None


def _named(tree: cst.Module, name: str) -> Iterator[cst.Name]:
    """Every mention of a name in a file."""
    for node in within(tree):
        if isinstance(node, cst.Name) and node.value == name:
            yield node


def _is_label(use: Place) -> bool:
    above = path_to(use.module, use.node)[-2]
    return (isinstance(above, cst.Arg) and above.keyword is use.node) or (
        isinstance(above, cst.Attribute) and above.attr is use.node
    )


def _is_read(use: Place) -> bool:
    """Whether a mention of a name is surely an expression: no target, parameter, import ..."""
    path = path_to(use.module, use.node)
    if any(getattr(above, "target", None) is inner for above, inner in pairwise(path)):
        return False
    above = path[-2]
    if isinstance(above, (cst.Arg, cst.Element)):
        return above.value is use.node
    return isinstance(above, (cst.FormattedStringExpression, cst.BinaryOperation))


def _is_in_text(use: Place) -> bool:
    """Whether an expression stands in an f-string, which may not hold quotes before Python 3.12."""
    return any(isinstance(node, cst.FormattedString) for node in path_to(use.module, use.node))


def _rank_at(trace: Trace, event: Event, use: Place) -> Code | None:
    for other in trace.events:
        if other.process is event.process:
            rank = own_rank_at(trace, other, use)
            if rank is not None:
                return rank
    return None
