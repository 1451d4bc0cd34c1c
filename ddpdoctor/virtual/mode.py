"""The dispatch mode: every operation's results get their label, and forbidden mixes are refused.

The hot path. What depends on the operation alone is decided once, in its plan; per call there is
one loop over the arguments, the call and one over the results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ddpdoctor.virtual import refusals
from ddpdoctor.virtual.labels import (
    CPU,
    CPU_INDEX,
    CPU_LABEL,
    Label,
    Labels,
    label_of,
    storage_of,
)
from ddpdoctor.virtual.operations import choose, common_label, named_tensors

_Tensor = torch.Tensor
_untyped_storage = torch._C.TensorBase.untyped_storage
_no_function_mode = torch._C.DisableTorchFunction

# Stands for "the arguments have no label in common".
_UNSETTLED = Label(-2, CPU, None, 0)

# In place, and yet the storage may change.
_RESIZING = frozenset({"resize_", "resize_as_", "set_", "_resize_output_"})


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
        self.handler = choose(namespace, self.name, self.arguments, bool(tensors))
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
