"""What a value is bound to or taken from: names, attributes, items, and several of them."""

from __future__ import annotations

from typing import Any

import libcst as cst

from ddpdoctor.lint import checkpoints, environment, operators
from ddpdoctor.lint.attributes import set_attribute
from ddpdoctor.lint.branches import split
from ddpdoctor.lint.expressions import evaluate, indices_of
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensor_operations import put, take
from ddpdoctor.lint.tensors import kind_of
from ddpdoctor.lint.values import (
    MISSING,
    Const,
    Dict,
    Name,
    Object,
    Scope,
    Sequence,
    Unknown,
    Value,
)


def assign(run: Run, target: cst.CSTNode, value: Value) -> None:
    """Binds a target of any form: a name, an attribute, an item, or several of them."""
    if isinstance(target, cst.Name):
        bind(run, target.value, value)
    elif isinstance(target, cst.Attribute):
        place, name = run.place(target), target.attr.value
        receiver = evaluate(run, target.value)
        split(run, receiver, lambda each: set_attribute(run, each, name, value, place))
    elif isinstance(target, cst.Subscript):
        container = evaluate(run, target.value)
        split(run, container, lambda each: _assign_item(run, each, target, value))
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(run, target, value)
    elif isinstance(target, cst.StarredElement):
        assign(run, target.value, value)


def bind(run: Run, name: str, value: Value) -> None:
    scope: Scope = run.frame.scope
    scope = scope.declared.get(name, scope)
    old = scope.variables.get(name)
    if old is None or old is not value:
        run.heap.write(scope.variables, name, value)


def delete(run: Run, node: cst.Del) -> None:
    targets = node.target.elements if isinstance(node.target, cst.Tuple) else [node]
    for element in targets:
        target = element.value if isinstance(element, cst.Element) else node.target
        if isinstance(target, cst.Name):
            run.heap.write(run.frame.scope.variables, target.value, MISSING)
        elif isinstance(target, cst.Subscript):
            _delete_item(run, target)


def _unpack(run: Run, target: cst.Tuple | cst.List, value: Value) -> None:
    value = resolve(value, run.path)
    count = len(target.elements)
    stars = [i for i, e in enumerate(target.elements) if isinstance(e, cst.StarredElement)]
    for position, element in enumerate(target.elements):
        if isinstance(value, Sequence) and not value.open and not stars:
            items = value.items
            item: Value = items[position] if position < len(items) else Unknown()
        elif stars and isinstance(value, Sequence):
            item = _starred_item(value, position, stars[0], count)
        elif isinstance(value, Object) and kind_of(value) == "tensor":
            item = take(run, value, [Const(position)], run.place(target))
        else:
            item = operators.subscript(value, Const(position), run.path)
        assign(run, element.value, item)


def _starred_item(value: Sequence, position: int, star: int, count: int) -> Value:
    after = count - star - 1
    items = value.items
    if position < star:
        return items[position] if position < len(items) else Unknown()
    if position == star:
        return Sequence(items[star : len(items) - after], open=value.open)
    offset = len(items) - (count - position)
    return items[offset] if 0 <= offset < len(items) and not value.open else Unknown()


def _assign_item(run: Run, container: Value, target: cst.Subscript, value: Value) -> None:
    if isinstance(container, Object) and kind_of(container) == "tensor":
        put(run, container, indices_of(run, target), value, run.place(target))
        return
    part = target.slice[0].slice
    if len(target.slice) != 1 or not isinstance(part, cst.Index):
        return
    key = resolve(evaluate(run, part.value), run.path)
    if isinstance(container, Name) and container.name == "os.environ":
        environment.write(run, key, value, run.place(target))
    elif isinstance(key, Const) and isinstance(container, Dict):
        _write_item(run, container.entries, key.value, value)
    elif isinstance(container, Dict):
        run.heap.write(container.cell, "open", True)  # from now on it may hold any key
        checkpoints.keep(run, container, value)
    elif isinstance(key, Const) and isinstance(container, Object):
        _write_item(run, container.attributes, key.value, value)
    elif isinstance(container, Object):
        checkpoints.keep(run, container, value)
    elif isinstance(container, Sequence):
        _write_position(run, container, key, value)


def _delete_item(run: Run, target: cst.Subscript) -> None:
    container = resolve(evaluate(run, target.value), run.path)
    part = target.slice[0].slice
    if not isinstance(part, cst.Index):
        return
    key = resolve(evaluate(run, part.value), run.path)
    if isinstance(container, Name) and container.name == "os.environ":
        environment.unset(run, key)
    elif isinstance(container, Dict) and isinstance(key, Const):
        _write_item(run, container.entries, key.value, MISSING)


def _write_item(run: Run, cell: dict[Any, Value], key: Any, value: Value) -> None:
    try:
        hash(key)
    except TypeError:
        return
    run.heap.write(cell, key, value)


def _write_position(run: Run, container: Sequence, key: Value, value: Value) -> None:
    items = list(container.items)
    number = key.value if isinstance(key, Const) else None
    if isinstance(number, int) and -len(items) <= number < len(items):
        items[number] = value
        run.heap.write(container.cell, "items", tuple(items))
