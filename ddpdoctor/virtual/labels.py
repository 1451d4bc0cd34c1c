"""The label that makes a CPU tensor a tensor of a virtual GPU.

It lives on the storage, so views, detached tensors and parameters share it: torch keeps the Python
attributes of a storage for as long as the storage lives in C++ (storage PyObject preservation,
torch 2.1 and newer). A storage without a label was made by C++ for its own ends; it takes the
device of whatever it is used with. What a user makes has a label, cpu included, so that the rules
can be strict.
"""

from __future__ import annotations

from typing import Any

import torch

from ddpdoctor.virtual.memory import DeviceMemory
from ddpdoctor.virtual.process import Process

CPU_INDEX = -1
CPU = torch.device("cpu")

_untyped_storage = torch._C.TensorBase.untyped_storage
_real_device: Any = vars(torch._C.TensorBase)["device"].__get__
real_storage_device: Any = vars(torch._C.StorageBase)["device"].__get__
_no_function_mode = torch._C.DisableTorchFunction


class Label:
    """index: the device index, or CPU_INDEX. device: the torch.device that index stands for.

    The label of a CUDA device holds its bytes until the storage is freed, and the label with it.
    """

    __slots__ = ("bytes", "device", "index", "memory")

    def __init__(
        self, index: int, device: torch.device, memory: DeviceMemory | None, size: int
    ) -> None:
        self.memory: DeviceMemory | None = None
        if memory is not None:
            memory.take(size)
        self.index = index
        self.device = device
        self.memory = memory
        self.bytes = size

    def resize(self, size: int) -> None:
        """The storage has grown or shrunk to size bytes."""
        if self.memory is not None and size != self.bytes:
            self.memory.give(self.bytes)
            self.bytes = 0
            self.memory.take(size)
            self.bytes = size

    def __del__(self) -> None:
        if self.memory is not None:
            self.memory.give(self.bytes)


CPU_LABEL = Label(CPU_INDEX, CPU, None, 0)


class Labels:
    """Reads and writes labels for one process's devices."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._devices: list[torch.device] = []

    def device(self, index: int) -> torch.device:
        if index == CPU_INDEX:
            return CPU
        while len(self._devices) <= index:
            self._devices.append(torch.device("cuda", len(self._devices)))
        return self._devices[index]

    def put(self, tensor: torch.Tensor, index: int) -> None:
        """Places a tensor's storage on a device, wherever it was. Opens the device's context."""
        storage = storage_of(tensor)
        if storage is None:
            # Sparse tensors and wrapper subclasses have no storage; the tensor itself carries it.
            self.put_empty(tensor, index)
            for part in parts(tensor):
                self.put(part, index)
            return
        self.put_storage(storage, index)

    def put_empty(self, tensor: torch.Tensor, index: int) -> None:
        """Says where a tensor is whose data, if any, are other tensors'."""
        tensor._virtual = self._label(index, 0)  # type: ignore[attr-defined]

    def put_storage(self, storage: torch.UntypedStorage, index: int) -> None:
        label = getattr(storage, "_virtual", None)
        if label is None or label.index != index:
            if real_storage_device(storage).type != "cpu":
                return  # meta
            size = storage.nbytes()
            storage._virtual = self._label(index, size)  # type: ignore[attr-defined]

    def _label(self, index: int, size: int) -> Label:
        if index == CPU_INDEX:
            return CPU_LABEL
        return Label(index, self.device(index), self.process.memory(index), size)


def faking() -> bool:
    """Whether tensors are being faked (shape propagation, deferred construction): fakes know
    devices.
    """
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage that carries the label; None for sparse tensors and wrapper subclasses."""
    with _no_function_mode():
        try:
            storage = _untyped_storage(tensor)
        except (RuntimeError, NotImplementedError):
            return None
        # A wrapper subclass has a storage that holds nothing and is shared with nothing.
        return storage


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors a sparse tensor is made of."""
    with _no_function_mode():
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def label_of(tensor: torch.Tensor) -> Label | None:
    """The tensor's label, or None where C++ made it and nobody has claimed it."""
    with _no_function_mode():
        try:
            label = getattr(_untyped_storage(tensor), "_virtual", None)
        except (RuntimeError, NotImplementedError):
            label = None
    if label is None:
        label = getattr(tensor, "_virtual", None)
    if label is None and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return label_of(torch._C._functorch.get_unwrapped(tensor))
    return label


def device_of(tensor: torch.Tensor) -> torch.device:
    """What tensor.device answers."""
    with _no_function_mode():
        try:
            label: Any = _untyped_storage(tensor)._virtual  # type: ignore[attr-defined]
        except (AttributeError, RuntimeError, NotImplementedError):
            label = None
    if label is not None:
        return label.device  # type: ignore[no-any-return]
    label = label_of(tensor)
    if label is not None:
        return label.device  # type: ignore[no-any-return]
    return _real_device(tensor)  # type: ignore[no-any-return]
