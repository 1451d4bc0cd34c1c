"""Evaluates expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from ddpdoctor.lint import checkpoints, environment, operators
from ddpdoctor.lint.attributes import class_attribute, get_attribute, has_builtin
from ddpdoctor.lint.branches import fork, split
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.comparisons import compare, negate
from ddpdoctor.lint.definitions import evaluate_defaults
from ddpdoctor.lint.dimensions import SLICE
from ddpdoctor.lint.iteration import items_by_default
from ddpdoctor.lint.modules import import_module
from ddpdoctor.lint.options import NAMESPACE
from ddpdoctor.lint.paths import map_value, resolve, truth
from ddpdoctor.lint.run import Frame, Run
from ddpdoctor.lint.tensor_operations import combine, take, unary
from ddpdoctor.lint.tensors import kind_of
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Class,
    Const,
    Dict,
    Either,
    Function,
    Index,
    Method,
    ModuleValue,
    Name,
    Not,
    Object,
    Place,
    Role,
    Scope,
    Sequence,
    Unknown,
    Value,
)


def evaluate(run: Run, node: cst.BaseExpression) -> Value:
    """The value of an expression in the current frame. Raises Dead where the program ends."""
    if not run.spend():
        return Unknown()
    known = _EVALUATORS.get(type(node))
    return Unknown() if known is None else known(run, node)


_KEYWORDS = {"None": None, "True": True, "False": False}


def _name(run: Run, node: cst.Name) -> Value:
    if node.value in _KEYWORDS:
        return Const(_KEYWORDS[node.value], run.place(node))
    return look_up(run, node.value)


def look_up(run: Run, name: str) -> Value:
    scope: Scope | None = run.frame.scope
    if scope is not None and name in scope.declared:
        scope = scope.declared[name]
    while scope is not None:
        value = scope.variables.get(name)
        if value is not None and value is not MISSING:
            return resolve(value, run.path)
        scope = scope.outer
    if name == "__name__":
        main = run.frame.module is run.trace.entry
        return Const("__main__" if main else run.frame.module.name)
    if name == "__package__":
        return Const(run.frame.module.package)
    if name == "__file__":
        return Const(str(run.frame.module.path))
    if has_builtin(name):
        return Name("builtins." + name)
    return Unknown(("name", id(run.frame.module), name))


def _integer(run: Run, node: cst.Integer) -> Value:
    try:
        return Const(int(node.value.replace("_", ""), 0), run.place(node))
    except ValueError:  # more than 4,300 digits
        return Unknown()


def _float(run: Run, node: cst.Float) -> Value:
    return Const(float(node.value.replace("_", "")), run.place(node))


def _string(run: Run, node: cst.SimpleString) -> Value:
    try:
        return Const(ast.literal_eval(node.value), run.place(node))
    except (SyntaxError, ValueError):
        return Unknown()


def _concatenated(run: Run, node: cst.ConcatenatedString) -> Value:
    values: list[Value] = []
    part: cst.BaseExpression = node
    while isinstance(part, cst.ConcatenatedString):
        values.append(evaluate(run, part.left))
        part = part.right
    values.append(evaluate(run, part))
    if any(isinstance(value, Const) and not isinstance(value.value, str) for value in values):
        return Unknown()
    return operators.join_text(tuple(values), run.place(node))


def _formatted(run: Run, node: cst.FormattedString) -> Value:
    parts: list[Value | str] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            parts.append(part.value.replace("{{", "{").replace("}}", "}"))
        elif isinstance(part, cst.FormattedStringExpression):
            parts.append(evaluate(run, part.expression))
    return operators.join_text(tuple(parts), run.place(node))


def _attribute(run: Run, node: cst.Attribute) -> Value:
    receiver = evaluate(run, node.value)
    place = run.place(node)
    return split(run, receiver, lambda r: get_attribute(run, r, node.attr.value, place))


def _call(run: Run, node: cst.Call) -> Value:
    place = run.place(node)
    if isinstance(node.func, cst.Name) and node.func.value == "super":
        return _super(run)  # super(Class, self) names what super() finds by itself
    callee = evaluate(run, node.func)
    arguments = evaluate_arguments(run, node.args)
    return call(run, callee, arguments, place)


def _super(run: Run) -> Value:
    frame = run.frame
    receiver = frame.receiver or _first_argument(frame)
    if frame.owner is None or receiver is None:
        return Unknown()
    return Object(Name("builtins.super"), {"#owner": frame.owner, "#receiver": receiver})


def _first_argument(frame: Frame) -> Value | None:
    """What super() goes by: __new__ is given its class as any other argument."""
    parameters = () if frame.function is None else frame.function.parameters.params
    first = frame.scope.variables.get(parameters[0].name.value) if parameters else None
    return first if isinstance(first, Value) else None


def evaluate_arguments(run: Run, args: Any) -> Arguments:
    positional: list[Value] = []
    named: dict[str, Value] = {}
    open_ended = False
    loaded: Const | None = None
    for arg in args:
        value = evaluate(run, arg.value)
        if arg.star == "*":
            value = resolve(value, run.path)
            if isinstance(value, Sequence):
                positional.extend(value.items)
                open_ended = open_ended or value.open
            else:
                open_ended = True
        elif arg.star == "**":
            value = resolve(value, run.path)
            if isinstance(value, (Dict, Object)):
                entries = value.entries if isinstance(value, Dict) else value.attributes
                named.update(
                    {k: v for k, v in entries.items() if isinstance(k, str) and v is not MISSING}
                )
                open_ended = open_ended or not _holds_all(value)
                loaded = loaded or checkpoints.load_of(run, value)
            else:
                open_ended = True
        elif arg.keyword is not None:
            named[arg.keyword.value] = value
        else:
            positional.append(value)
    return Arguments(tuple(positional), named, open_ended, loaded)


def _holds_all(value: Dict | Object) -> bool:
    """Whether ** gives no other names than those that are known: of a dictionary or a
    configuration, and not of an object with keys() of its own."""
    if isinstance(value, Dict):
        return not value.open
    return isinstance(value.cls, Name) and value.cls.name == NAMESPACE


def _comparison(run: Run, node: cst.Comparison) -> Value:
    left = evaluate(run, node.left)
    result: Value | None = None
    for target in node.comparisons:
        right = evaluate(run, target.comparator)
        outcome = _compare(run, _COMPARISONS[type(target.operator)], left, right, run.place(node))
        result = outcome if result is None else _both(run, result, outcome)
        left = right
    return result if result is not None else Unknown()


def _compare(run: Run, operator: str, left: Value, right: Value, place: Place) -> Value:
    if operator not in ("is", "is not", "in", "not in"):
        combined = combine(run, left, right, place)
        if combined is not None:
            return combined
    if operator in ("in", "not in") and isinstance(right, Name) and right.name == "os.environ":
        held = environment.is_set(run, left)
        return held if operator == "in" else negate(held)
    return compare(operator, left, right, run.path)


_COMPARISONS = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}


def _both(run: Run, a: Value, b: Value) -> Value:
    verdict = truth(a, run.path)
    if isinstance(verdict, bool):
        return b if verdict else a
    if verdict.inverted:
        return Either(verdict.key, verdict.default, Const(False), b)
    return Either(verdict.key, verdict.default, b, Const(False))


def _boolean(run: Run, node: cst.BooleanOperation) -> Value:
    left = evaluate(run, node.left)
    if isinstance(node.operator, cst.And):
        return fork(run, left, lambda: evaluate(run, node.right), lambda: _when_false(left))
    return fork(run, left, lambda: left, lambda: evaluate(run, node.right))


def _when_false(value: Value) -> Value:
    """A value that is known to be false: which falsity it is matters to nobody."""
    return value if isinstance(value, Const) else Const(False)


def _unary(run: Run, node: cst.UnaryOperation) -> Value:
    value = evaluate(run, node.expression)
    if isinstance(node.operator, cst.Not):
        verdict = truth(value, run.path)
        return Const(not verdict) if isinstance(verdict, bool) else Not(value)
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        if isinstance(node.operator, cst.Minus):
            return Const(-value.value, run.place(node))
        if isinstance(node.operator, cst.Plus):
            return value
    return map_value(value, run.path, lambda each: unary(run, each, run.place(node)))


def _binary(run: Run, node: cst.BinaryOperation) -> Value:
    left = evaluate(run, node.left)
    right = evaluate(run, node.right)
    return binary(run, type(node.operator), left, right, run.place(node))


def binary(run: Run, kind: type[cst.CSTNode], left: Value, right: Value, place: Place) -> Value:
    """The value of `left OP right`, seeing tensors that meet on the way."""
    combined = combine(run, left, right, place, product=kind is cst.MatrixMultiply)
    if combined is not None:
        return combined
    return operators.binary(kind, left, right, run.path, place)


def _conditional(run: Run, node: cst.IfExp) -> Value:
    test = evaluate(run, node.test)
    return fork(run, test, lambda: evaluate(run, node.body), lambda: evaluate(run, node.orelse))


def _subscript(run: Run, node: cst.Subscript) -> Value:
    container = evaluate(run, node.value)
    if isinstance(container, Object) and kind_of(container) == "tensor":
        return take(run, container, indices_of(run, node), run.place(node))
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                evaluate(run, element.slice.value)
        return _sliced(run, container, node)
    index = evaluate(run, node.slice[0].slice.value)
    if isinstance(container, Name) and container.name == "os.environ":
        return environment.read(run, index, None)
    if isinstance(container, Name) and container.name == "sys.modules":
        return _loaded_module(run, index)
    if isinstance(container, Name) and container.name.endswith(".__dict__"):
        from ddpdoctor.lint.builtin_functions import get_by_name

        owner = Name(container.name.removesuffix(".__dict__"))
        return get_by_name(run, Arguments((owner, index)), run.place(node))
    if isinstance(container, (Function, Name)):
        return container  # a generic: Foo[int] is Foo as far as calling it goes
    if isinstance(container, Object) and isinstance(container.cls, Class):
        found = class_attribute(container.cls, "__getitem__")
        if found is not None:
            return call(run, Method(container, found), Arguments((index,)), run.place(node))
    picked = operators.subscript(container, index, run.path)
    if not isinstance(index, Index) or index.role is not Role.LOCAL:
        return picked
    place = run.place(node)

    def entry(leaf: Value) -> Value:
        return leaf.at(place) if isinstance(leaf, Index) and leaf is not index else leaf

    return map_value(picked, run.path, entry)


def indices_of(run: Run, node: cst.Subscript) -> list[Value]:
    """The indices of x[0, :, mask]."""
    indices: list[Value] = []
    for element in node.slice:
        index = element.slice
        value: Value = SLICE
        if isinstance(index, cst.Index):
            dots = isinstance(index.value, cst.Ellipsis)
            value = Const(Ellipsis) if dots else evaluate(run, index.value)
        indices += value.items if isinstance(value, Sequence) and value.kind == "tuple" else [value]
    return indices


def _loaded_module(run: Run, name: Value) -> Value:
    """sys.modules[__name__]."""
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return Unknown()
    if name.value == "__main__":
        return ModuleValue(run.trace.entry)
    return import_module(run, name.value)


def _sliced(run: Run, container: Value, node: cst.Subscript) -> Value:
    part = node.slice[0].slice
    container = resolve(container, run.path)
    if isinstance(container, Sequence) and isinstance(part, cst.Slice):
        bounds: list[int | None] = []
        for bound in (part.lower, part.upper, part.step):
            value = Const(None) if bound is None else evaluate(run, bound)
            if not isinstance(value, Const) or not isinstance(value.value, (int, type(None))):
                return _some_of(container)
            bounds.append(value.value)
        if container.open and bounds != [None, None, None]:
            return _some_of(container)
        return Sequence(container.items[slice(*bounds)], container.kind, open=container.open)
    if isinstance(container, Object) and "#device" in container.attributes:
        return container
    return Unknown()


def _some_of(container: Sequence) -> Sequence:
    """A slice with bounds or items that are not all known, so that no number is surely in it."""
    items = tuple(item for item in container.items if not isinstance(item, (Const, Unknown)))
    return Sequence(items, container.kind, open=True)


def _tuple(run: Run, node: cst.Tuple) -> Value:
    return _items(run, node.elements, "tuple")


def _list(run: Run, node: cst.List) -> Value:
    return _items(run, node.elements, "list")


def _set(run: Run, node: cst.Set) -> Value:
    return _items(run, node.elements, "set")


def _items(run: Run, elements: Any, kind: str) -> Sequence:
    items: list[Value] = []
    open_ended = False
    for element in elements:
        value = evaluate(run, element.value)
        if isinstance(element, cst.StarredElement):
            value = resolve(value, run.path)
            if isinstance(value, Sequence):
                items.extend(value.items)
                open_ended = open_ended or value.open
            else:
                open_ended = True
        else:
            items.append(value)
    return Sequence(tuple(items), kind, open=open_ended)


def _dict(run: Run, node: cst.Dict) -> Value:
    entries: dict[Any, Value] = {}
    open_ended = False
    for element in node.elements:
        value = evaluate(run, element.value)
        if isinstance(element, cst.StarredDictElement):
            value = resolve(value, run.path)
            if isinstance(value, Dict):
                entries.update(value.entries)
            open_ended = open_ended or not isinstance(value, Dict) or value.open
        elif isinstance(element, cst.DictElement):
            key = resolve(evaluate(run, element.key), run.path)
            if isinstance(key, Const):
                entries[key.value] = value
            open_ended = open_ended or not isinstance(key, Const)
    return Dict(entries, open=open_ended)


def _lambda(run: Run, node: cst.Lambda) -> Value:
    return Function(
        "<lambda>",
        node.params,
        node.body,
        run.frame.module,
        run.frame.scope,
        evaluate_defaults(run, node.params),
        origin=run.place(node),
    )


def _comprehension(run: Run, node: Any) -> Value:
    kind = "set" if isinstance(node, cst.SetComp) else "list"
    return _comprehend(run, node.for_in, lambda: evaluate(run, node.elt), kind)


def _comprehend(run: Run, clause: cst.CompFor, element: Callable[[], Value], kind: str) -> Sequence:
    from ddpdoctor.lint.targets import assign

    iterated = resolve(evaluate(run, clause.iter), run.path)
    items, complete = items_by_default(run, iterated)
    given = iterated.given if isinstance(iterated, Sequence) else None
    scope = run.frame.scope
    run.frame.scope = Scope({}, scope)
    results: list[Value] = []
    try:
        for item in items:
            assign(run, clause.target, item)
            keep: bool | None = True
            for condition in clause.ifs:
                verdict = truth(evaluate(run, condition.test), run.path)
                if verdict is False:
                    keep = False
                    break
                if not isinstance(verdict, bool):
                    complete = False
            if not keep:
                continue
            if clause.inner_for_in is not None:
                inner = _comprehend(run, clause.inner_for_in, element, kind)
                results.extend(inner.items)
                complete = complete and not inner.open
            else:
                results.append(element())
    finally:
        run.frame.scope = scope
    return Sequence(tuple(results), kind, open=not complete, given=given)


def _dict_comprehension(run: Run, node: cst.DictComp) -> Value:
    result = Dict({})

    def element() -> Value:
        key = resolve(evaluate(run, node.key), run.path)
        value = evaluate(run, node.value)
        if isinstance(key, Const):
            result.entries[key.value] = value
        else:
            run.heap.write(result.cell, "open", True)
            checkpoints.keep(run, result, value)
        return value

    if _comprehend(run, node.for_in, element, "list").open:
        run.heap.write(result.cell, "open", True)
    return result


def _named(run: Run, node: cst.NamedExpr) -> Value:
    from ddpdoctor.lint.targets import assign

    value = evaluate(run, node.value)
    assign(run, node.target, value)
    return value


def _await(run: Run, node: cst.Await) -> Value:
    return evaluate(run, node.expression)


def _yield(run: Run, node: cst.Yield) -> Value:
    value: Value = Const(None)
    if isinstance(node.value, cst.From):
        value = resolve(evaluate(run, node.value.item), run.path)
        if isinstance(value, Sequence) and run.frame.yields is not None:
            for item in value.items:
                run.frame.yields(item)
            return Unknown()
    elif node.value is not None:
        value = evaluate(run, node.value)
    return run.frame.yields(value) if run.frame.yields is not None else Unknown()


_EVALUATORS: dict[type[cst.CSTNode], Callable[[Run, Any], Value]] = {
    cst.Name: _name,
    cst.Integer: _integer,
    cst.Float: _float,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Attribute: _attribute,
    cst.Call: _call,
    cst.Comparison: _comparison,
    cst.BooleanOperation: _boolean,
    cst.UnaryOperation: _unary,
    cst.BinaryOperation: _binary,
    cst.IfExp: _conditional,
    cst.Subscript: _subscript,
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _set,
    cst.Dict: _dict,
    cst.Lambda: _lambda,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _dict_comprehension,
    cst.NamedExpr: _named,
    cst.Await: _await,
    cst.Yield: _yield,
}
