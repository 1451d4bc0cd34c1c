"""What the dispatch mode does for operations that need more than their arguments' common label."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from ddpdoctor.virtual import placement
from ddpdoctor.virtual.labels import CPU, CPU_INDEX, Label, faking, label_of

if TYPE_CHECKING:
    from ddpdoctor.virtual.mode import Placer, Plan

_Tensor = torch.Tensor

_HOST_MEMORY_ENDED = re.compile(r"DefaultCPUAllocator.* tried to allocate (\d+) bytes")

Handler = Callable[["Placer", "Plan", Sequence[Any], dict[str, Any]], Any]

# Namespaces and operations that other files take over: name or namespace -> handler.
handlers: dict[str, Handler] = {}


def choose(
    namespace: str, name: str, arguments: Sequence[str], takes_tensors: bool
) -> Handler | None:
    """The handler of an operation; None where the general way does."""
    handler = handlers.get(f"{namespace}::{name}") or handlers.get(namespace)
    if handler is not None:
        return handler
    if "device" in arguments:
        return create_like if takes_tensors and name not in placement.NUMBERS else create
    if name in placement.CROSSING:
        return cross
    if name in placement.CPU_ARGUMENTS:
        return index
    return foreach if name.startswith(placement.FOREACH_PREFIXES) else None


def named_tensors(
    plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor among the arguments, lists flattened, with its argument's name."""
    for name, value in (*zip(plan.arguments, args, strict=False), *kwargs.items()):
        yield from _tensors(name, value)


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, _Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(name, each)


def common_label(operation: str, tensors: Sequence[tuple[str, torch.Tensor]]) -> Label | None:
    """The label all tensors share, or the one the operation settles on. Raises where it refuses."""
    common: Label | None = None
    for _, tensor in tensors:
        label = label_of(tensor)
        if label is None:
            continue
        if common is None:
            common = label
        elif label.index != common.index:
            return placement.settle(operation, tensors)
    return common


def create(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A factory without tensor arguments."""
    if faking():
        return plan.run(*args, **kwargs)
    device, args, kwargs = _take_device(plan, args, kwargs)
    index = placer.index_of(device)
    if index == CPU_INDEX or device is None:
        # C++ says "cpu" for its own scratch tensors too; only the user's own call names a target.
        index = placer.target
    return _make(placer, plan, index, args, kwargs)


def create_like(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A factory that takes a tensor as its pattern (zeros_like, new_empty ...)."""
    device, args, kwargs = _take_device(plan, args, kwargs)
    label = common_label(plan.operation, list(named_tensors(plan, args, kwargs)))
    index = placer.index_of(device)
    if index == CPU_INDEX or device is None:
        # C++ fills in "cpu" for "the device of the pattern".
        index = placer.target
        if index is None and label is not None:
            index = label.index
    return _make(placer, plan, index, args, kwargs)


def _make(
    placer: Placer, plan: Plan, index: int | None, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Runs a factory and labels what it makes; None: nobody has said where."""
    if index is None or index == CPU_INDEX:
        result = plan.run(*args, **kwargs)
    else:
        memory = placer.process.memory(index)
        drawing = plan.seeded and kwargs.get("generator") is None
        try:
            with placer.generators(index) if drawing else nullcontext():
                result = plan.run(*args, **kwargs)
        except RuntimeError as error:
            # The host's memory may end before the device's would.
            asked = _HOST_MEMORY_ENDED.search(str(error))
            if asked:
                memory.check(int(asked[1]))
            raise
    if index is not None and plan.fresh:
        placer.mark(result, index)
    return result


def _take_device(
    plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[torch.device | None, Sequence[Any], dict[str, Any]]:
    """The device asked for, and the arguments with the real device in its place."""
    position = plan.arguments.index("device")
    if position < len(args):
        device = args[position]
        if device is not None and device.type == "cuda":
            args = [*args[:position], CPU, *args[position + 1 :]]
    else:
        device = kwargs.get("device")
        if device is not None and device.type == "cuda":
            kwargs = {**kwargs, "device": CPU}
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    return device, args, kwargs


def cross(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A copy between devices: the result is where the first argument is."""
    result = plan.run(*args, **kwargs)
    labels = [label_of(tensor) for _, tensor in named_tensors(plan, args, {})]
    label = next(filter(None, labels), None)
    if label is not None:
        placer.adopt(plan, args, kwargs, label.index)
        placer.mark(result, label.index)
    return result


def index(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operation some of whose arguments may be on the CPU."""
    free = placement.CPU_ARGUMENTS[plan.name]
    own: list[tuple[str, torch.Tensor]] = []
    helpers: list[tuple[str, torch.Tensor]] = []
    for position, (name, value) in enumerate(zip(plan.arguments, args, strict=False)):
        (helpers if position in free else own).extend(_tensors(name, value))
    for name, value in kwargs.items():
        own.extend(_tensors(name, value))
    common = common_label(plan.operation, own)
    for _, tensor in helpers:
        label = label_of(tensor)
        if label is None or common is None or label.index in (CPU_INDEX, common.index):
            continue
        placement.refuse_index(plan.operation, [*own, *helpers], common)
    result = plan.run(*args, **kwargs)
    if common is not None:
        placer.adopt(plan, args, kwargs, common.index)
        for position in placement.CPU_RESULTS.get(plan.name, ()):
            placer.mark(result[position], CPU_INDEX)
        if plan.fresh:
            placer.mark(result, common.index)
    return result


def foreach(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Lists of tensors that meet index by index."""
    arguments = (*zip(plan.arguments, args, strict=False), *kwargs.items())
    lists = [(name, value) for name, value in arguments if isinstance(value, (list, tuple))]
    lists = [(name, value) for name, value in lists if value and isinstance(value[0], _Tensor)]
    length = max((len(value) for _, value in lists), default=0)
    together = {label_of(tensor) for _, value in lists for tensor in value}
    indices = {label.index for label in together if label is not None}
    if len(indices) <= 1:
        places = [*indices] * length
    else:
        single = [(name, value) for name, value in arguments if isinstance(value, _Tensor)]
        places = []
        for position in range(length):
            tensors = [(name, value[position]) for name, value in lists if position < len(value)]
            tensors += [(name, tensor) for name, tensor in single if tensor.dim() > 0]
            label = common_label(plan.operation, tensors)
            places.append(CPU_INDEX if label is None else label.index)
    result = plan.run(*args, **kwargs)
    if plan.fresh and places:
        for place, tensor in zip(places, result, strict=False):
            placer.mark(tensor, place)
    return result


def to_copy(placer: Placer, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """aten::_to_copy: a copy on the device asked for, or on the tensor's own."""
    device, args, kwargs = _take_device(plan, args, kwargs)
    index = placer.index_of(device)
    if device is not None and index is None:
        return plan.run(*args, **kwargs)  # to meta
    if index is None or (index == CPU_INDEX and placer.target is None):
        label = label_of(args[0])
        # C++ code that copies "to the options of" a virtual tensor says cpu and means its device.
        index = None if label is None else label.index
    elif index == CPU_INDEX:
        index = placer.target
    result = plan.run(*args, **kwargs)
    if index is not None:
        placer.mark(result, index)
    return result


handlers["aten::_to_copy"] = to_copy
