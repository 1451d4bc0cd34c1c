"""NCCL's rules for gloo: one GPU a rank, CUDA tensors only, the device a group is bound to."""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddpdoctor.virtual.labels import CPU_INDEX
from ddpdoctor.virtual.process import Process
from ddpdoctor.virtual.properties import NCCL_VERSION, bus

DEFAULT_TIMEOUT = timedelta(minutes=10)


class NcclOptions:
    """ProcessGroupNCCL.Options: accepted; only the timeout matters to gloo."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.split_from: Any = None
        self.split_color = 0
        self.config = NcclConfig()
        self._timeout = DEFAULT_TIMEOUT


class NcclConfig:
    """ncclConfig_t: every field may be set, none has an effect."""


def process_group_class(process: Process) -> type:
    """ProcessGroupNCCL: gloo underneath, and a communicator that knows every rank's GPU."""

    class ProcessGroupNCCL(distributed_c10d.ProcessGroupGloo):
        Options = NcclOptions  # type: ignore[assignment]
        NCCLConfig = NcclConfig

        def __init__(
            self,
            store: distributed_c10d.Store,
            rank: int,
            size: int,
            options: NcclOptions | None = None,
            timeout: timedelta = DEFAULT_TIMEOUT,
        ) -> None:
            waited = timeout if options is None else options._timeout
            super().__init__(store, rank, size, timeout=waited)
            _let_threads_finish()
            self.communicator = Communicator(process, store, rank, size, waited)
            self.nccl_options = options

        @property
        def supports_splitting(self) -> bool:
            return True

        def eager_connect_single_device(self, device: torch.device | None = None) -> None:
            index = None if device is None else device.index
            self.communicator.connect(process.current if index is None else index)

        def perform_nocolor_split(self, device: torch.device) -> None:
            pass

        def abort(self) -> None:
            pass

        def _group_start(self) -> None:
            pass

        def _group_end(self) -> None:
            pass

    ProcessGroupNCCL.__module__ = "torch.distributed.distributed_c10d"
    return ProcessGroupNCCL


class Communicator:
    """Who sits on which GPU in one process group.

    NCCL makes its communicator at the first collective on a device (or at once with device_id=),
    and that is when it sees two ranks on one GPU. used: the devices of this rank, first used first.
    """

    def __init__(
        self,
        process: Process,
        store: distributed_c10d.Store,
        rank: int,
        size: int,
        timeout: timedelta,
    ) -> None:
        self.bound: int | None = None
        self.used: list[int] = []
        self._process = process
        self._store = store
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._count = 0
        self._pairs: set[int] = set()

    def connect(self, index: int) -> None:
        """The first collective on this device. Raises DistBackendError where ranks share a GPU."""
        if index == CPU_INDEX or index in self.used:
            return
        if self.bound is not None and self.bound != index:
            # ProcessGroupNCCL.cpp, initNCCLComm
            raise dist.DistBackendError(
                "Attempt to perform collective on tensor not on device passed to init_process_group"
            )
        self._process.memory(index)
        self._count += 1
        self._meet(f"virtual_nccl/{self._count}", range(self._size), index)
        self.used.append(index)

    def connect_pair(self, index: int, peer: int) -> None:
        """The first send or receive with a peer makes a communicator of two."""
        if index in self.used or peer in self._pairs or index == CPU_INDEX:
            return
        self._process.memory(index)
        pair = sorted((self._rank, peer))
        self._meet(f"virtual_nccl/{pair[0]}:{pair[1]}", pair, index)
        self._pairs.add(peer)

    def _meet(self, key: str, ranks: Any, index: int) -> None:
        device = self._process.devices()[index]
        own = [_machine(), device.uuid]
        self._store.set(f"{key}/{self._rank}", json.dumps(own))
        keys = [f"{key}/{rank}" for rank in ranks]
        try:
            self._store.wait(keys, self._timeout)
        except dist.DistStoreError as error:
            missing = [rank for rank in ranks if not self._store.check([f"{key}/{rank}"])]
            raise dist.DistBackendError(
                f"rank {self._rank} waited {self._timeout} for {_ranks(missing)} to join the NCCL "
                "communicator; a real machine would hang here. They have not reached this "
                "collective, or use another process group."
            ) from error
        peers = {rank: json.loads(self._store.get(f"{key}/{rank}")) for rank in ranks}
        twins = [rank for rank, peer in peers.items() if peer == own and rank != self._rank]
        if twins:
            # NCCL's init.cc up to 2.29; %lx of the bus id (busIdToInt64).
            raise _nccl_error(
                "invalid usage (run with NCCL_DEBUG=WARN for details)",
                "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
                f"Duplicate GPU detected : rank {self._rank} and rank {twins[0]} both on CUDA "
                f"device {bus(device):x}000",
            )
        if len({tuple(peer) for peer in peers.values()}) < len(peers):
            raise _nccl_error(
                "remote process exited or there was a network error",
                "ncclRemoteError: A call failed possibly due to a network error or a remote "
                "process exiting prematurely.",
                "",
            )


def _machine() -> str:
    """What tells machines apart: NCCL_HOSTID, as in NCCL, or else the host and torchrun's node.

    So several nodes can be tried out on one machine, each with its own virtual GPUs.
    """
    node = f"{socket.gethostname()}/{os.environ.get('GROUP_RANK', 0)}"
    return os.environ.get("NCCL_HOSTID", node)


def _nccl_error(result: str, meaning: str, last: str) -> Exception:
    """As ProcessGroupNCCL words it (NCCLUtils.hpp, C10D_NCCL_CHECK)."""
    version = ".".join(map(str, NCCL_VERSION))
    return dist.DistBackendError(
        "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, "
        f"{result}, NCCL version {version}\n{meaning}\nLast error:\n{last}"
    )


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


@functools.cache
def _let_threads_finish() -> None:
    """Give gloo's threads a moment at the end of the process.

    Such a thread lets go of the last collective's tensors after the caller went on, and needs the
    GIL for it; asked for while Python shuts down, that aborts the process ("terminate called
    without an active exception", ProcessGroupGloo::runLoop of torch 2.13, one run of two with eight
    ranks on two cores).
    """
    atexit.register(time.sleep, 0.1)
