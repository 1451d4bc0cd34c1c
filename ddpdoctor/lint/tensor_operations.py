"""What operations on tensors give, and which tensors meet in them.

The tensors of an operation have to be on one device, but one of the CPU that has no dimensions may
meet any (aten's TensorIterator); indices may be on the CPU, and what copies crosses devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from ddpdoctor.lint import dimensions
from ddpdoctor.lint.devices import is_cpu, is_cuda
from ddpdoctor.lint.dimensions import SLICE
from ddpdoctor.lint.paths import leaves, map_value, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensors import TENSOR, device_of, held_in, kind_of, meet, new_tensor
from ddpdoctor.lint.values import (
    Arguments,
    Const,
    Device,
    Dict,
    Index,
    Object,
    Place,
    Sequence,
    Text,
    Unknown,
    Value,
)

# Where a tensor was made or is kept is also why what is computed from it is there.
_MARKS = ("#made", "#kept", "#owner")


def computed(
    run: Run, tensors: list[Object], place: Place, *, count: int | None = None, scalar: bool = False
) -> Object:
    """The result of an operation on tensors. count: its dimensions; scalar: it may have none."""
    shaped = [each for each in tensors if "#scalar" not in each.attributes]
    lead = _decisive(run, shaped or tensors)
    attributes = {name: lead.attributes[name] for name in _MARKS if name in lead.attributes}
    attributes |= {"#device": device_of(run, lead), "#kind": Const("tensor")}
    if scalar or not shaped or count == 0:
        attributes["#scalar"] = Const(True)
    elif count is not None:
        attributes["#dimensions"] = Const(count)
    return Object(TENSOR, attributes, place)


def _decisive(run: Run, tensors: list[Object]) -> Object:
    """The tensor that tells where the result is: one on a GPU, else one on the CPU."""
    for where in (is_cuda, is_cpu):
        for each in tensors:
            if where(device_of(run, each)):
                return each
    return tensors[0]


def combine(
    run: Run, left: Value, right: Value, place: Place, *, product: bool = False
) -> Value | None:
    """The result of `left + right`, `left < right` ..., None where neither is known to be a tensor.
    product: of `left @ right`."""
    left, right = resolve(left, run.path), resolve(right, run.path)
    if not any(_may_be_tensor(run, each) for each in (left, right)):
        return None
    meet(run, left, right, place)
    return map_value(
        left,
        run.path,
        lambda a: map_value(right, run.path, lambda b: _of_two(run, a, b, place, product)),
    )


def _may_be_tensor(run: Run, value: Value) -> bool:
    return any(kind_of(leaf) == "tensor" for leaf, _ in leaves(value, run.path))


def _of_two(run: Run, left: Value, right: Value, place: Place, product: bool) -> Value:
    tensors = _tensors((left, right))
    others = [each for each in (left, right) if kind_of(each) != "tensor"]
    if not tensors or any(isinstance(each, (Sequence, Text, Dict)) for each in others):
        return Unknown()
    if others and not isinstance(others[0], (Const, Index)):
        # A number, an array or another tensor, which may be on a GPU.
        return Unknown() if "#scalar" in tensors[0].attributes else computed(run, tensors, place)
    count = dimensions.product(tensors) if product else dimensions.most(tensors)
    return computed(run, tensors, place, count=count)


def unary(run: Run, value: Value, place: Place) -> Value:
    """-x and ~x."""
    tensors = _tensors((value,))
    if not tensors:
        return Unknown()
    return computed(run, tensors, place, count=dimensions.most(tensors))


def take(run: Run, tensor: Object, indices: Iterable[Value], place: Place) -> Object:
    """tensor[indices]. Indices on the CPU may take from a tensor on a GPU; the reverse is an
    error."""
    indices = [resolve(index, run.path) for index in indices]
    _meet_indices(run, tensor, indices, place)
    count, scalar = dimensions.indexed(dimensions.dimensions(tensor), indices)
    return computed(run, [tensor], place, count=count, scalar=scalar)


def put(run: Run, tensor: Object, indices: Iterable[Value], value: Value, place: Place) -> None:
    """tensor[indices] = value copies from any device, but not to a mask or list of places."""
    indices = [resolve(index, run.path) for index in indices]
    _meet_indices(run, tensor, indices, place)
    if any(isinstance(index, Sequence) or kind_of(index) == "tensor" for index in indices):
        meet(run, tensor, resolve(value, run.path), place)


def _meet_indices(run: Run, tensor: Object, indices: Iterable[Value], place: Place) -> None:
    if is_cpu(device_of(run, tensor)):
        for index in indices:
            if index is not SLICE:
                meet(run, tensor, index, place)


def object_attribute(run: Run, receiver: Object, name: str) -> Value | None:
    """Attributes every tensor and module has: .device, .weight ..."""
    if "#device" not in receiver.attributes:
        return None
    device = device_of(run, receiver)
    place = receiver.origin or Place(run.frame.module, run.frame.module.tree())
    if name == "device":
        return device
    if name in ("weight", "bias") and kind_of(receiver) == "module":
        state = new_tensor(run, device, place, state=Const("parameter"))
        run.heap.write(receiver.attributes, name, state)  # it moves with the module
        return state
    if name in ("is_cuda", "is_cpu"):
        is_there = is_cuda if name == "is_cuda" else is_cpu
        return map_value(
            device,
            run.path,
            lambda d: Const(is_there(d)) if isinstance(d, Device) else Unknown(),
        )
    if name in _VIEWS:
        return computed(run, [receiver], place, count=dimensions.dimensions(receiver))
    return None


def call_function(run: Run, name: str, arguments: Arguments, place: Place) -> Value:
    """torch.cat([a, b]), F.mse_loss(x, y): a function of torch that no table tells more of."""
    given = [resolve(v, run.path) for v in (*arguments.positional, *arguments.named.values())]
    tensors = _tensors(held for value in given for held in held_in(value))
    last = name.rpartition(".")[2]
    if last == "is_tensor" and tensors:
        return Const(True)
    if last == "is_tensor" and given and isinstance(given[0], (Const, Index, Text)):
        return Const(False)
    if run.apis.mixes_devices(name):
        return Unknown()
    if tensors:
        first = next((each for each in tensors if is_cuda(device_of(run, each))), tensors[0])
        for other in tensors:
            if other is not first:
                meet(run, first, other, place)
    if last in _JOINS and not tensors:
        tensors = [held for value in given for held in held_in(value) if _was_moved(held)]
    if not tensors or last in _FACTS or last.startswith("is_"):
        return Unknown()
    rest = arguments.after_first()
    return _result(run, last, tensors, rest, place)


def call_method(run: Run, receiver: Object, name: str, arguments: Arguments, place: Place) -> Value:
    """A method of a tensor that no table tells more of."""
    given = [resolve(v, run.path) for v in (*arguments.positional, *arguments.named.values())]
    tensors = [receiver]
    if name not in _SHAPE_ONLY and not run.apis.mixes_devices(f"torch.{name}"):
        for value in given:
            meet(run, receiver, value, place)
        tensors += _tensors(given)
    if name in _FACTS:
        return Unknown()
    if name.endswith("_") and not name.endswith("__"):
        return receiver
    return _result(run, name, tensors, arguments, place)


def _result(run: Run, name: str, tensors: list[Object], rest: Arguments, place: Place) -> Value:
    if dimensions.gains(name, rest) and "#scalar" in tensors[0].attributes:
        attributes = {k: v for k, v in tensors[0].attributes.items() if k != "#scalar"}
        tensors = [Object(TENSOR, attributes, place)]
    scalar = dimensions.reduces_all(name, rest)
    count = dimensions.computed(name, tensors, rest)
    result = computed(run, tensors, place, count=count, scalar=scalar)
    if name in _PAIRS and not scalar and len(tensors) == 1:
        return Sequence((result, result), "tuple")
    return Sequence((result,) * 8, "tuple", open=True) if name in _SEVERAL else result


def _was_moved(value: Object) -> bool:
    return "#moved" in value.attributes


def _tensors(values: Iterable[Value]) -> list[Object]:
    return [v for v in values if isinstance(v, Object) and kind_of(v) == "tensor"]


_VIEWS = frozenset({"data", "grad", "T", "mT", "H", "mH", "real", "imag", "weight", "bias"})

# They give numbers, truths, sizes and arrays.
_FACTS = frozenset(
    {"item", "tolist", "numpy", "size", "dim", "numel", "nelement", "equal", "allclose", "stride"}
    | {"element_size", "get_device", "data_ptr", "storage_offset", "backward", "save"}
)

# What they join is tensors, even if no more is known of it than that it was moved: [x.cpu(), ...].
_JOINS = frozenset(
    {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "row_stack"}
    | {"column_stack"}
)

# They give several tensors of at least one dimension. (Those of unbind may have none.)
_SEVERAL = frozenset({"meshgrid", "chunk", "split", "tensor_split", "hsplit", "vsplit"})

# They give what they found along a dimension, and where.
_PAIRS = frozenset({"topk", "sort", "max", "min", "median", "mode", "kthvalue", "cummax", "cummin"})

# These take a tensor from any device: they copy it, or look at its shape only.
_SHAPE_ONLY = ("copy_", "expand_as", "view_as", "reshape_as", "resize_as_", "type_as", "set_")
