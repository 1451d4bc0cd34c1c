"""The dispatch mode: every operation's results get their label, and forbidden mixes are refused.

The hot path. What depends on the operation alone is decided once, in its plan; per call there is
one loop over the arguments, the call and one over the results.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ddpdoctor.virtual import placement, refusals
from ddpdoctor.virtual.labels import (
    CPU,
    CPU_INDEX,
    CPU_LABEL,
    Label,
    Labels,
    faking,
    label_of,
    storage_of,
)

_Tensor = torch.Tensor
_untyped_storage = torch._C.TensorBase.untyped_storage
_no_function_mode = torch._C.DisableTorchFunction

# Stands for "the arguments have no label in common".
_UNSETTLED = Label(-2, CPU, None, 0)

# In place, and yet the storage may change.
_RESIZING = frozenset({"resize_", "resize_as_", "set_", "_resize_output_"})

_HOST_MEMORY_ENDED = re.compile(r"DefaultCPUAllocator.* tried to allocate (\d+) bytes")

Handler = Callable[["Placer", "Plan", Sequence[Any], dict[str, Any]], Any]

# Namespaces and operations that other files take over: name or namespace -> handler.
handlers: dict[str, Handler] = {}


class Plan:
    """What is known of an operation before it is called.

    run: torch's own callable. fresh: some result is no alias of an argument. writes: positions of
    the arguments it writes. seeded: it draws random numbers. handler: what takes it over, if
    anything. Two short ways past the general one: passes (one tensor goes in and a view of it comes
    out), and simple (tensors are positional arguments, in place or with fresh results).
    """

    __slots__ = (
        "arguments",
        "fresh",
        "handler",
        "name",
        "operation",
        "passes",
        "run",
        "seeded",
        "simple",
        "writes",
    )

    def __init__(self, func: OpOverload) -> None:
        schema = func._schema
        self.run = func._op
        namespace, _, self.name = schema.name.partition("::")
        self.operation = f"{schema.name}.{schema.overload_name}".rstrip(".")
        self.arguments = [argument.name for argument in schema.arguments]
        tensors = [argument for argument in schema.arguments if "Tensor" in str(argument.type)]
        self.fresh = any(
            "Tensor" in str(result.type) and result.alias_info is None for result in schema.returns
        )
        self.writes = tuple(
            position
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        self.seeded = torch.Tag.nondeterministic_seeded in func.tags
        self.handler = _handler(namespace, self.name, self.arguments, bool(tensors))
        plain = self.handler is None and not self.seeded
        single = all("List" not in str(argument.type) for argument in tensors)
        self.passes = plain and single and len(tensors) == 1 and not (self.fresh or self.writes)
        in_place = self.writes == (0,) and self.name.endswith("_") and self.name not in _RESIZING
        self.simple = (
            plain
            and single
            and not any(argument.kwarg_only for argument in tensors)
            and (not self.writes or in_place)
        )


def _handler(
    namespace: str, name: str, arguments: Sequence[str], takes_tensors: bool
) -> Handler | None:
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


class Placer:
    """Labels for one process, and the devices threads have asked for. Shared by all its modes."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.process = labels.process
        # torch.set_default_tensor_type(torch.cuda.FloatTensor) was called.
        self.default_type_is_cuda = False
        self._local = threading.local()

    @property
    def target(self) -> int | None:
        """Where this thread's factories place what they make: set while a user's call says so, or
        C++ works.
        """
        return getattr(self._local, "target", None)

    @target.setter
    def target(self, index: int | None) -> None:
        self._local.target = index

    def index_of(self, device: torch.device | None) -> int | None:
        """The index a device stands for (the current one where it names none); None for meta."""
        if device is None:
            return None
        if device.type == "cuda":
            return self.cuda_index(device)
        return CPU_INDEX if device.type == "cpu" else None

    def cuda_index(self, device: torch.device) -> int:
        """As index_of, for a CUDA device."""
        self.process.initialize()
        index = self.process.current if device.index is None else device.index
        self.process.check_index(index)
        return index

    def mark(self, result: Any, index: int) -> None:
        """Labels the results that have no label yet."""
        if isinstance(result, _Tensor):
            if label_of(result) is None:
                self.labels.put(result, index)
        elif isinstance(result, (tuple, list)):
            for each in result:
                self.mark(each, index)

    def general(self, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Any operation without a handler of its own."""
        tensors = list(named_tensors(plan, args, kwargs))
        label = common_label(plan.operation, tensors)
        if plan.seeded and label is not None and label.index != CPU_INDEX:
            with self.generators(label.index):
                result = plan.run(*args, **kwargs)
        else:
            result = plan.run(*args, **kwargs)
        if label is not None:
            self.adopt(plan, args, kwargs, label.index)
            if plan.fresh:
                self.mark(result, label.index)
        return result

    def adopt(self, plan: Plan, args: Sequence[Any], kwargs: dict[str, Any], index: int) -> None:
        """What was written gets a label where C++ gave it none, and its bytes are counted anew."""
        for position in plan.writes:
            written = (
                args[position] if position < len(args) else kwargs.get(plan.arguments[position])
            )
            for tensor in written if isinstance(written, (list, tuple)) else (written,):
                if not isinstance(tensor, _Tensor):
                    continue
                storage = storage_of(tensor)
                if storage is None:
                    continue
                label = getattr(storage, "_virtual", None)
                if label is None:
                    self.labels.put(tensor, index)
                elif label.index != CPU_INDEX:
                    label.resize(storage.nbytes())

    generators: Callable[[int], Any]


class PlacementMode(TorchDispatchMode):
    """One per thread."""

    def __init__(self, placer: Placer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._placer = placer

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap __torch_dispatch__ in a function that imports the compiler at its first
        # call.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if types and not all(map(_is_plain, types)):
            if any(issubclass(kind, FakeTensor) for kind in types):
                return func(*args, **(kwargs or {}))
            # A subclass that dispatches itself (DTensor ...) goes first; its parts come here.
            return NotImplemented
        with _no_function_mode():
            try:
                plan: Plan = func._ddpdoctor_plan
            except AttributeError:
                plan = func._ddpdoctor_plan = Plan(func)
            try:
                if plan.passes:
                    return plan.run(*args, **kwargs) if kwargs else plan.run(*args)
                if plan.simple:
                    label = self._shared_label(plan, args)
                    if label is not _UNSETTLED:
                        result = plan.run(*args, **kwargs) if kwargs else plan.run(*args)
                        if label is not None and plan.fresh:
                            self._mark(result, label)
                        return result
                if plan.handler is None:
                    return self._placer.general(plan, args, kwargs or {})
                return plan.handler(self._placer, plan, args, kwargs or {})
            except NotImplementedError as error:
                raise refusals.kernel_missing(plan.operation, error) from error

    def _shared_label(self, plan: Plan, args: Sequence[Any]) -> Label | None:
        """The label that every tensor has; _UNSETTLED where it is not that simple."""
        label = None
        try:
            for argument in args:
                if isinstance(argument, _Tensor):
                    found = getattr(_untyped_storage(argument), "_virtual", None)
                    if found is None:
                        if plan.writes:  # what is written takes the others' label
                            return _UNSETTLED
                    elif label is None:
                        label = found
                    elif found.index != label.index:
                        return _UNSETTLED
        except (RuntimeError, NotImplementedError):  # a sparse tensor has no storage
            return _UNSETTLED
        return label

    def _mark(self, result: Any, label: Label) -> None:
        """As Placer.mark, without its detours."""
        if not isinstance(result, _Tensor):
            self._placer.mark(result, label.index)
            return
        try:
            storage = _untyped_storage(result)
        except (RuntimeError, NotImplementedError):
            self._placer.mark(result, label.index)
            return
        if getattr(storage, "_virtual", None) is None:
            memory = label.memory
            storage._virtual = (  # type: ignore[attr-defined]
                CPU_LABEL
                if memory is None
                else Label(label.index, label.device, memory, storage.nbytes())
            )


def _is_plain(kind: type) -> bool:
    return kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl  # type: ignore[attr-defined]


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
