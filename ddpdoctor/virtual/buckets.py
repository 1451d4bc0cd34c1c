"""DistributedDataParallel's buckets on virtual GPUs: each on the device of its tensors.

DDP's C++ code sorts parameters and buffers into buckets by device. Here all of them are CPU tensors
to it, so they are sorted beforehand. A model that spans several GPUs needs this.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ddpdoctor.virtual.labels import label_of
from ddpdoctor.virtual.mode import Placer
from ddpdoctor.virtual.patches import Patches


def install(placer: Placer, patches: Patches) -> None:
    """DDP's C++ code goes by the parameters' devices, all of which it takes for the CPU."""
    if not dist.is_available():
        return
    verify = dist._verify_params_across_processes  # type: ignore[attr-defined]
    patches.set(dist, "_verify_params_across_processes", _beside_tensors(placer, verify))
    broadcast = dist._broadcast_coalesced  # type: ignore[attr-defined]
    patches.set(dist, "_broadcast_coalesced", _by_device(_beside_tensors(placer, broadcast)))
    assign = dist._compute_bucket_assignment_by_size  # type: ignore[attr-defined]
    patches.set(dist, "_compute_bucket_assignment_by_size", _assign_by_device(assign))
    real = dist.Reducer  # type: ignore[attr-defined]

    class Reducer(real):  # type: ignore[misc, valid-type]
        def __init__(
            self,
            params: list[torch.Tensor],
            bucket_indices: list[list[int]],
            limits: list[int],
            process_group: Any,
            sparse: Sequence[bool] = (),
            *args: Any,
            **kwargs: Any,
        ) -> None:
            self._home = params
            self._buckets = [list(bucket) for bucket in bucket_indices]
            dense = [bucket for bucket in self._buckets if not (sparse and sparse[bucket[0]])]
            self._dense = [[params[index] for index in bucket] for bucket in dense]
            with _beside(placer, params), BucketMode(placer, self._dense):
                super().__init__(
                    params, bucket_indices, limits, process_group, sparse, *args, **kwargs
                )

        def _rebuild_buckets(self) -> Any:
            several = len(_positions_by_device(self._home)) > 1
            keeping = BucketMode(placer, self._dense, self._buckets) if several else nullcontext()
            with _beside(placer, self._home), keeping:
                return super()._rebuild_buckets()

    patches.set(dist, "Reducer", Reducer)


class BucketMode(TorchDispatchMode):
    """Places each bucket that the Reducer makes on its parameters' device.

    C++ makes them one after another, each a flat tensor of its parameters' size (reducer.cpp,
    initialize_buckets); dense: their parameters, as sparse gradients have no such tensor.

    keep: after the first iteration C++ sorts the parameters into buckets anew, and would put some
    of several devices into one. It then takes rank 0's buckets, in two broadcasts (reducer.cpp,
    sync_bucket_indices): all indices and the number of buckets, then the buckets' lengths. These
    buckets are sent instead.
    """

    def __init__(
        self, placer: Placer, dense: list[list[torch.Tensor]], keep: list[list[int]] | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._placer = placer
        self._dense = list(dense)
        self._sent: list[list[int]] = []
        if keep is not None:
            flat = [index for bucket in keep for index in bucket]
            self._sent = [[*flat, len(keep)], [len(bucket) for bucket in keep]]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if self._sent and func is torch.ops.c10d.broadcast_.default:
            (tensor,) = args[0]
            tensor.copy_(torch.tensor(self._sent.pop(0), dtype=tensor.dtype))
        elif self._dense and func is torch.ops.aten.empty.memory_format:
            size = sum(tensor.numel() for tensor in self._dense[0])
            if not self._sent and list(args[0]) == [size]:
                with _beside(self._placer, self._dense.pop(0)):
                    return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _positions_by_device(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """The tensors' positions, a list for each device."""
    groups: dict[int | None, list[int]] = {}
    for position, tensor in enumerate(tensors):
        label = label_of(tensor)
        groups.setdefault(None if label is None else label.index, []).append(position)
    return list(groups.values())


def _by_device(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def by_device(process_group: Any, tensors: Sequence[torch.Tensor], *args: Any) -> None:
        for positions in _positions_by_device(tensors):
            real(process_group, [tensors[position] for position in positions], *args)

    return by_device


def _assign_by_device(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def assign_by_device(
        tensors: Sequence[torch.Tensor], sizes: Sequence[int], sparse: Sequence[bool] = ()
    ) -> tuple[list[list[int]], list[int]]:
        """No bucket holds tensors of two devices; the buckets come in their first tensors' order
        (reducer.cpp, compute_bucket_assignment_by_size).
        """
        assigned: list[tuple[list[int], int]] = []
        for positions in _positions_by_device(tensors):
            own = [tensors[position] for position in positions]
            own_sparse = [sparse[position] for position in positions] if sparse else []
            buckets, limits = real(own, sizes, own_sparse)
            for bucket, limit in zip(buckets, limits, strict=True):
                assigned.append(([positions[index] for index in bucket], limit))
        assigned.sort(key=lambda each: min(each[0]))
        return [bucket for bucket, _ in assigned], [limit for _, limit in assigned]

    return assign_by_device


def _beside_tensors(placer: Placer, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def beside_tensors(process_group: Any, tensors: list[torch.Tensor], *args: Any) -> Any:
        with _beside(placer, tensors):
            return real(process_group, tensors, *args)

    return beside_tensors


@contextmanager
def _beside(placer: Placer, tensors: list[torch.Tensor]) -> Iterator[None]:
    """What C++ makes meanwhile is on the first tensor's device."""
    label = label_of(tensors[0]) if tensors else None
    outer = placer.target
    placer.target = outer if label is None else label.index
    try:
        yield
    finally:
        placer.target = outer
