"""How many dimensions tensors have, as far as that is written down.

A tensor of the CPU without dimensions may take part in an operation on any GPU, so it matters
whether an element was taken or a row. None: not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ddpdoctor.lint.values import Arguments, Const, Object, Sequence, Unknown, Value

# An index that is a slice, x[1:].
SLICE = Const("slice")


def dimensions(tensor: Object) -> int | None:
    known = tensor.attributes.get("#dimensions")
    return known.value if isinstance(known, Const) else None


def most(tensors: Iterable[Object]) -> int | None:
    """Those of the result of an operation element by element."""
    found = 0
    for each in tensors:
        known = 0 if "#scalar" in each.attributes else dimensions(each)
        if known is None:
            return None
        found = max(found, known)
    return found


def made(facts: Mapping[str, Any], arguments: Arguments) -> int | None:
    """Those of what a call makes. facts: `dimensions` is their number, "size" where the call takes
    the sizes in a list, "sizes" where it takes them one by one as well, "data" where it takes
    nested lists."""
    word = facts.get("dimensions")
    if not isinstance(word, str):
        return word
    given = arguments.positional
    if "size" in arguments.named:
        given = (*given, arguments.named["size"])
    listed = next((each for each in given if isinstance(each, Sequence)), None)
    if word == "data":
        return _nested(given[0]) if given else None
    if listed is not None:
        return None if listed.open else len(listed.items)
    one_by_one = word == "sizes" and (len(given) > 1 or isinstance(next(iter(given), None), Const))
    return len(given) if one_by_one and not arguments.open else None


def _nested(data: Value) -> int | None:
    if not isinstance(data, Sequence):
        return 0 if isinstance(data, Const) else None
    below = _nested(data.items[0]) if data.items else 0
    return None if below is None else below + 1


def indexed(before: int | None, indices: Iterable[Value]) -> tuple[int | None, bool]:
    """Those of x[indices], and whether it may have none."""
    added = removed = 0
    doubtful = keeps = False
    for index in indices:
        if index is SLICE or isinstance(index, Sequence):
            keeps = True
            doubtful = doubtful or index is not SLICE
        elif isinstance(index, Object) and "#scalar" not in index.attributes:
            keeps = doubtful = True
        elif isinstance(index, Const) and index.value is None:
            added += 1
        elif not (isinstance(index, Const) and index.value is Ellipsis):
            removed += 1
            doubtful = doubtful or not isinstance(index, Const)
    if before is None:
        return None, bool(removed) and not keeps and not added
    left = before + added - removed
    return (None if doubtful else max(left, 0)), left < 1 and not keeps


_SAME = frozenset(
    {"float", "double", "half", "bfloat16", "int", "long", "bool", "clone", "detach", "contiguous"}
    | {"abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu", "neg", "clamp", "t"}
    | {"transpose", "masked_fill", "where", "flip", "roll", "cumsum", "cumprod", "softmax"}
    | {"log_softmax", "triu", "triu_", "tril", "tril_", "sort", "split", "chunk", "cat"}
    | {"to", "type"}
)
_SIZED = frozenset({"view", "reshape", "expand", "repeat", "permute", "new_zeros", "new_ones"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "mv", "dot", "vdot"})
_REDUCTIONS = frozenset(
    {"sum", "mean", "prod", "max", "min", "amax", "amin", "norm", "std", "var", "any", "all"}
    | {"median", "argmax", "argmin", "nansum", "nanmean", "logsumexp", "count_nonzero", "quantile"}
    | {"vector_norm", "matrix_norm", "det", "logdet", "trace"}
)
_NUMBER_FIRST = frozenset({"norm", "vector_norm", "matrix_norm", "quantile"})
_LOSSES = ("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div")


def computed(name: str, tensors: list[Object], rest: Arguments) -> int | None:
    """Those of what a function or method gives for tensors. rest: the arguments that are no tensor
    that it starts from."""
    if name in _SAME:
        return most(tensors)
    if name in _SIZED:
        return made({"dimensions": "sizes"}, rest)
    if name in _PRODUCTS:
        return product(tensors)
    before = dimensions(tensors[0])
    if before is None:
        return None
    if name == "unsqueeze":
        return before + 1
    if name == "select" or (name == "squeeze" and before == 1):
        return before - 1
    if name in _REDUCTIONS and len(tensors) == 1 and "keepdim" not in rest.named:
        over = _reduced(name, rest)
        return max(before - (len(over.items) if isinstance(over, Sequence) else 1), 0)
    return None


def product(tensors: list[Object]) -> int | None:
    """Those of `a @ b`: of two vectors it is a number."""
    counts = [dimensions(each) for each in tensors]
    known = [each for each in counts if each is not None]
    if len(counts) != 2 or len(known) != 2:
        return None
    return max(known) if min(known) > 1 else max(known) - 1


def reduces_all(name: str, rest: Arguments) -> bool:
    """Whether a reduction leaves no dimension, so that its result may meet any device."""
    if name.endswith(_LOSSES):
        return "reduction" not in rest.named
    return (
        name in _REDUCTIONS
        and _reduced(name, rest) is None
        and not rest.open
        and "keepdim" not in rest.named
    )


def _reduced(name: str, rest: Arguments) -> Value | None:
    """The dimensions over which a reduction goes, None where over all."""
    over = rest.get(int(name in _NUMBER_FIRST), "dim", "axis")
    is_none = isinstance(over, Const) and (over.value is None or isinstance(over.value, bool))
    return None if is_none else over


def gains(name: str, rest: Arguments) -> bool:
    """Whether a method gives a tensor dimensions that has none."""
    first = rest.get(0) or Unknown()
    empty = isinstance(first, Sequence) and not first.items
    return name == "unsqueeze" or (name in _SIZED and bool(rest.positional) and not empty)
