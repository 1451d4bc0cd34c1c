"""Counters: what a program counts in many rounds is some number, not the one it starts from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpdoctor.lint.expressions import evaluate
from ddpdoctor.lint.imports import dotted_name
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.targets import assign
from ddpdoctor.lint.values import Class, Const, Object, Unknown, Value
from ddpdoctor.lint.walking import children


def forget_counters(run: Run, body: cst.BaseSuite) -> None:
    """Before the only round that is run of a loop: what its body counts is any number in it."""
    targets = run.counters.get(id(body))
    if targets is None:
        targets = run.counters[id(body)] = tuple(_counters(body))
    for target in targets:
        if _is_number(resolve(evaluate(run, target), run.path)):
            assign(run, target, Unknown())


def _counters(body: cst.BaseSuite) -> Iterator[cst.BaseExpression]:
    """The names and attributes that a block adds to: `step += 1`, `step = step + 1`."""
    stack: list[cst.CSTNode] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.BaseExpression)):
            continue
        if isinstance(node, cst.AugAssign):
            if dotted_name(node.target):
                yield node.target
        elif isinstance(node, cst.Assign):
            target, value = node.targets[0].target, node.value
            name = dotted_name(target)
            if name and isinstance(value, cst.BinaryOperation) and dotted_name(value.left) == name:
                yield target
        else:
            stack.extend(children(node))


def forget_counts(run: Run, cls: Class, instance: Object) -> None:
    """Once an object is made: what the files of its classes count in it is any number later."""
    for ancestor in cls.ancestors():
        if isinstance(ancestor, Class):
            for name in ancestor.module.counted():
                if _is_number(instance.attributes.get(name)):
                    run.heap.write(instance.attributes, name, Unknown())


def _is_number(value: Value | None) -> bool:
    return isinstance(value, Const) and type(value.value) in (int, float)
