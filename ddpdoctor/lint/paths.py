"""Paths: what is assumed of the conditions that could not be decided, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from ddpdoctor.lint.values import (
    MISSING,
    Attribute,
    Const,
    Dict,
    Either,
    Index,
    Missing,
    Not,
    Object,
    Sequence,
    Text,
    Unknown,
    Value,
    either,
)

# What is assumed: whether the condition of a key is true, and under AMONG what values some unknowns
# have at most, by their keys. Ask with decided().
Path = dict[Hashable, Any]
AMONG = "among"
_Values = dict[Hashable, tuple[object, ...]]


@dataclass(frozen=True)
class Test:
    """A condition that is not known: true where the condition of that key is not `inverted`."""

    key: Hashable
    default: bool | None
    inverted: bool = False

    def negated(self) -> Test:
        return Test(self.key, self.default, not self.inverted)


def truth(value: Value, path: Path) -> bool | Test:
    """Whether a value is true on rank k > 0 of a job with several ranks."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Not):
        verdict = truth(value.operand, path)
        return (not verdict) if isinstance(verdict, bool) else verdict.negated()
    if isinstance(value, Either):
        taken = decided(value.key, path)
        if taken is not None:
            return truth(value.yes if taken else value.no, path)
        yes = truth(value.yes, {**path, value.key: True})
        no = truth(value.no, {**path, value.key: False})
        if yes == no:
            return yes
        if isinstance(yes, bool) and isinstance(no, bool):
            return Test(value.key, value.default, inverted=not yes)
        own: Hashable = ("either", value.uid)
        known = decided(own, path)
        return Test(own, default_truth(value)) if known is None else known
    if isinstance(value, Unknown):
        key = ("true", value.key)
        known = decided(key, path)
        if known is not None:
            return known
        return Test(key, None if value.default is None else default_truth(value.default))
    if isinstance(value, Index):
        return True  # rank k > 0, and there is more than one of everything that is counted
    if isinstance(value, Text):
        return True
    if isinstance(value, Sequence):
        if "#any" in value.cell:
            return truth(value.cell["#any"], path)
        return bool(value.items) or (value.open and Test(("items", value.uid), None))
    if isinstance(value, Dict):
        return bool(value.entries) or value.open
    if isinstance(value, Attribute):  # of something of a library, where it may be anything
        known = decided(value.key, path)
        return Test(value.key, None) if known is None else known
    if isinstance(value, Object) and _is_tensor(value):
        known = decided(value, path)  # each is a condition of its own
        return Test(value, None) if known is None else known
    return not isinstance(value, Missing)


def _is_tensor(value: Object) -> bool:
    kind = value.attributes.get("#kind")
    return isinstance(kind, Const) and kind.value == "tensor"


def default_truth(value: Value) -> bool | None:
    """The truth of a value when the program is started without options, None if not known."""
    if isinstance(value, Not):
        inner = default_truth(value.operand)
        return None if inner is None else not inner
    if isinstance(value, Unknown):
        return None if value.default is None else default_truth(value.default)
    if isinstance(value, Either):
        if value.default is not None:
            return default_truth(value.yes if value.default else value.no)
        yes, no = default_truth(value.yes), default_truth(value.no)
        return yes if yes == no else None
    verdict = truth(value, {})
    return verdict if isinstance(verdict, bool) else None


def assume(value: Value, wanted: bool, path: Path) -> Path:
    """What is known when the value is found true (or false): new assumptions, by key."""
    if isinstance(value, Not):
        return assume(value.operand, not wanted, path)
    verdict = truth(value, path)
    if isinstance(verdict, bool):
        return {}
    known: Path = {verdict.key: wanted != verdict.inverted}
    taken = decided(value.key, path) if isinstance(value, Either) else None
    if isinstance(value, Either) and taken is None:
        yes = truth(value.yes, {**path, value.key: True})
        no = truth(value.no, {**path, value.key: False})
        if yes is (not wanted):
            known.update({value.key: False, **assume(value.no, wanted, {**path, value.key: False})})
        elif no is (not wanted):
            known.update({value.key: True, **assume(value.yes, wanted, {**path, value.key: True})})
        else:
            known.update(_values_of_both(value, wanted, path))
    elif isinstance(value, Either):
        known.update(assume(value.yes if taken else value.no, wanted, path))
    for key, holds in tuple(known.items()):
        if holds is True:
            known.update(_named_values(key, {**path, **known}))
    return known


def _values_of_both(value: Either, wanted: bool, path: Path) -> Path:
    """What `mode == "ddp" or mode == "fsdp"` says of the values that an unknown can have."""
    sides = []
    for taken, side in ((True, value.yes), (False, value.no)):
        known = _named_values(value.key, path) if taken else {}
        sides.append({**known, **assume(side, wanted, {**path, **known})}.get(AMONG, {}))
    yes, no = sides
    both = {of: tuple(dict.fromkeys((*yes[of], *no[of]))) for of in yes if of in no}
    return {AMONG: both} if both else {}


def decided(key: Hashable, path: Path) -> bool | None:
    """Whether the condition of a key is true on a path, None if that is not known.

    Where `mode == "ddp"` or `mode in ("ddp", "fsdp")` holds, `mode == "single"` does not.
    """
    known: bool | None = path.get(key)
    if known is not None or AMONG not in path:
        return known
    if not isinstance(key, tuple) or len(key) != 2 or key[0] != "true":
        return None
    question = key[1]
    asks = isinstance(question, tuple) and len(question) == 3 and question[0] in _QUESTIONS
    values = path[AMONG].get(question[1] if asks else question)
    if values is None:
        return None
    answers = {_answer(question, value) if asks else bool(value) for value in values}
    return answers.pop() if len(answers) == 1 else None


_QUESTIONS = frozenset({"==", "is", "in", ">", ">="})


def _answer(question: tuple[Any, Any, Any], value: object) -> bool | None:
    operator, _, other = question
    if operator == "in":
        return value in other
    answer = compare_constants(operator, Const(value), Const(other))
    return bool(answer.value) if isinstance(answer, Const) else None


def _named_values(key: Hashable, path: Path) -> Path:
    """What a condition that holds says of the values that an unknown can have."""
    match key:
        case ("true", ("in", of, tuple() as values)):
            pass
        case ("true", ("==" | "is", of, value)):
            values = (value,)
        case _:
            return {}
    among = path.get(AMONG, {})
    if of in among:
        values = tuple(value for value in values if value in among[of])
    return {AMONG: {**among, of: values}} if values else {}


def compatible(a: Path, b: Path) -> bool:
    """Whether two paths can be one run: no condition is assumed both ways."""
    if len(a) > len(b):
        a, b = b, a
    # The shorter one names every condition that both do; what it limits may decide the others.
    return _allows(b, a) and (AMONG not in a or _allows(a, b))


def _allows(path: Path, other: Path) -> bool:
    limited = AMONG in path
    for key, assumed in other.items():
        known = path.get(key)
        if known is None and limited:
            known = decided(key, path)
        if known is None or known is assumed:
            continue
        if key != AMONG or not _overlap(known, assumed):
            return False
    return True


def _overlap(a: _Values, b: _Values) -> bool:
    return all(any(value in b[of] for value in values) for of, values in a.items() if of in b)


def resolve(value: Value, path: Path) -> Value:
    """The value on a path, as far as its conditions are assumed there."""
    while isinstance(value, Either):
        taken = decided(value.key, path)
        if taken is None:
            if value.no is MISSING:
                value = value.yes
            elif value.yes is MISSING:
                value = value.no
            else:
                return value
        else:
            value = value.yes if taken else value.no
    return value


def or_else(value: Value, path: Path, default: Callable[[], Value]) -> Value:
    """The value, with the default on those sides of branches where there is none."""
    if isinstance(value, Either):
        taken = decided(value.key, path)
        if taken is not None:
            return or_else(value.yes if taken else value.no, path, default)
        yes = or_else(value.yes, {**path, value.key: True}, default)
        no = or_else(value.no, {**path, value.key: False}, default)
        if yes is value.yes and no is value.no:
            return value  # one thing still, which a branch that leaves it alone joins with itself
        return either(value.key, value.default, yes, no)
    return default() if value is MISSING else value


def leaves(value: Value, path: Path) -> Iterator[tuple[Value, Path]]:
    """Every alternative of a value on a path, each with the path on which it is that one."""
    value = resolve(value, path)
    if isinstance(value, Either):
        yield from leaves(value.yes, {**path, value.key: True})
        yield from leaves(value.no, {**path, value.key: False})
    elif value is not MISSING:
        yield value, path


def map_value(value: Value, path: Path, change: Callable[[Value], Value]) -> Value:
    """Applies a function without side effects to each alternative of a value."""
    value = resolve(value, path)
    if isinstance(value, Either):
        return either(
            value.key,
            value.default,
            map_value(value.yes, {**path, value.key: True}, change),
            map_value(value.no, {**path, value.key: False}, change),
        )
    return change(value)


def compare_constants(operator: str, left: Const, right: Const) -> Value:
    """The result of a comparison that Python itself can make."""
    try:
        if operator == "==":
            return Const(left.value == right.value)
        if operator == "is":
            return Const(left.value is right.value or left.value == right.value)
        if operator == "<":
            return Const(left.value < right.value)
        if operator == ">":
            return Const(left.value > right.value)
        if operator == "<=":
            return Const(left.value <= right.value)
        return Const(left.value >= right.value)
    except TypeError:
        return Unknown()
