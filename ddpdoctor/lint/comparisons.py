"""Comparisons: what ==, is, <, in and not make of abstract values."""

from __future__ import annotations

from ddpdoctor.lint.devices import is_cpu, is_cuda
from ddpdoctor.lint.gpu_counts import asks_for_one_gpu
from ddpdoctor.lint.paths import Path, compare_constants, map_value, truth
from ddpdoctor.lint.values import (
    COUNTS,
    MISSING,
    RANKS,
    Attribute,
    Const,
    Dict,
    Either,
    Index,
    Name,
    Not,
    Object,
    Role,
    Sequence,
    Text,
    TypeOf,
    Unknown,
    Value,
)


def compare(operator: str, left: Value, right: Value, path: Path) -> Value:
    """The result of ==, is, <, in ... as a value: a constant, or an unknown with a shared key."""
    return map_value(
        left,
        path,
        lambda a: map_value(right, path, lambda b: _compare(operator, a, b)),
    )


_OPPOSITE = {"<": ">=", "<=": ">"}
_MIRRORED = {"==": "==", "is": "is", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _compare(operator: str, left: Value, right: Value) -> Value:
    left, right = _whatever(left), _whatever(right)
    if operator == "!=":
        return negate(_compare("==", left, right))
    if operator == "is not":
        return negate(_compare("is", left, right))
    if operator == "not in":
        return negate(_compare("in", left, right))
    if operator == "in":
        return _contains(left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        return compare_constants(operator, left, right)
    if isinstance(left, Const) and operator in _MIRRORED:
        return _compare(_MIRRORED[operator], right, left)
    if isinstance(right, Const):
        if isinstance(left, Index):
            return _compare_index(operator, left, right.value)
        if isinstance(left, Name) and operator == "==" and right.value is not None:
            left = Unknown(
                ("library", left.name)
            )  # torch.__version__, Backend.NCCL, a function ...
        if operator == "==" and right.value is not None and _has_own_equality(left):
            return Unknown()
        if operator in ("is", "==") and not isinstance(left, (Unknown, Text, Not)):
            return Const(False)  # an object, a device or a function is no constant
        if operator == "is" and isinstance(left, Text):
            return Const(False)
        if isinstance(left, Unknown):
            one_gpu = asks_for_one_gpu(operator, left, right.value)
            if one_gpu is not None:
                return one_gpu
            if operator in _OPPOSITE:  # so that `n <= 1` and `n > 1` share one key
                return negate(_compare(_OPPOSITE[operator], left, right))
            if operator == "is" or (operator == "==" and right.value is None):
                operator = "is"
                if right.value is None and _has_a_default(left):
                    return Const(False)
            default = None
            if left.default is not None:
                default = _compare(operator, left.default, right)
            key = (operator, left.key, right.value)
            return Unknown(key, default=default, given=left.given)
    if isinstance(left, TypeOf) and isinstance(right, TypeOf) and operator == "==":
        devices = (left.device, right.device)
        return (
            Const(False) if any(map(is_cpu, devices)) and any(map(is_cuda, devices)) else Unknown()
        )
    if left is right and operator in ("==", "is", "<=", ">="):
        return Const(True)
    return Unknown()


def _whatever(value: Value) -> Value:
    """An attribute of something of a library may hold anything."""
    return Unknown(value.key) if isinstance(value, Attribute) else value


def _has_own_equality(value: Value) -> bool:
    """Whether it is an object of a library, such as a tensor: these say themselves what they
    equal."""
    return isinstance(value, Object) and isinstance(value.cls, Name)


def _has_a_default(value: Unknown) -> bool:
    """Whether it is a command-line option that is never None, as it has another default."""
    is_option = isinstance(value.key, tuple) and value.key[0] == "option"
    return is_option and isinstance(value.default, Const) and value.default.value is not None


def _compare_index(operator: str, left: Index, number: object) -> Value:
    if left.argument is not None and (number in (None, -1) or (operator, number) == ("<", 0)):
        # "Not launched by torch.distributed.launch": only the option decides.
        return _compare(operator, left.argument, Const(number))
    if not isinstance(number, (int, float)):
        return Const(False) if operator in ("==", "is") else Unknown()
    if left.role in RANKS or left.role is Role.PHYSICAL:
        least = 1 if left.exact and left.role in RANKS else 0
    elif left.role in COUNTS:
        least = 2 if left.exact else 0
    else:
        return Unknown()
    key = ("rank", left.role, left.exact, operator, number)
    if operator in ("==", "is"):
        return Const(False) if number < least else Unknown(key)
    if operator == ">":
        return Const(True) if number < least else Unknown(key)
    if operator == ">=":
        return Const(True) if number <= least else Unknown(key)
    if operator == "<":
        return Const(False) if number <= least else Unknown(key)
    return Const(False) if number < least else Unknown(key)


def _contains(item: Value, container: Value) -> Value:
    if isinstance(container, Const) and isinstance(item, Const):
        try:
            return Const(item.value in container.value)
        except TypeError:
            return Unknown()
    if isinstance(container, Dict) and isinstance(item, Const):
        held = container.entries.get(item.value, MISSING)
        if held is not MISSING and not isinstance(held, Either):
            return Const(True)
        return Unknown() if container.open or held is not MISSING else Const(False)
    if isinstance(container, Sequence):
        verdicts = [truth(_compare("==", item, other), {}) for other in container.items]
        if any(verdict is True for verdict in verdicts):
            return Const(True)
        if not container.open and all(verdict is False for verdict in verdicts):
            return Const(False)
        if isinstance(item, Unknown) and all(isinstance(i, Const) for i in container.items):
            values = tuple(i.value for i in container.items if isinstance(i, Const))
            default = None
            if item.default is not None:
                default = _contains(item.default, container)
            return Unknown(("in", item.key, values), default=default, given=item.given)
    if isinstance(container, Unknown) and isinstance(item, Const):
        return Unknown(("contains", container.key, item.value))
    return Unknown()


def negate(value: Value) -> Value:
    return Const(not value.value) if isinstance(value, Const) else Not(value)
