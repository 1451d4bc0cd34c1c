"""Breaks one of NCCL's rules on purpose. Run by torchrun; argument: which."""

import os
import sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

RANK = int(os.environ["LOCAL_RANK"])
rule = sys.argv[1]


class Converts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(torch.from_numpy(x).float().cuda())


class Spanning(nn.Module):
    """A model on two GPUs; the second one's parameters are not used."""

    def __init__(self):
        super().__init__()
        self.used = nn.Linear(2, 2).to(2 * RANK)
        self.unused = nn.Linear(2, 2).to(2 * RANK + 1)

    def forward(self, x):
        return self.used(x.to(2 * RANK))


def several():
    """What goes wrong without ending the process group: each error is printed by rank 0."""
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl", device_id=torch.device("cuda", RANK))
    assert dist.is_nccl_available()
    assert dist.get_backend() == "nccl"
    elsewhere = torch.ones(1, device=torch.device("cuda", 1 - RANK))
    here = torch.ones(1, device=torch.device("cuda", RANK))
    for tensor in (torch.ones(1), elsewhere):
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            if RANK == 0:
                print(f"{type(error).__name__}: {error}")
    try:
        dist.all_gather([torch.empty(1), torch.empty(1)], here)
    except ValueError as error:
        if RANK == 0:
            print(f"{type(error).__name__}: {error}")
    try:
        dist.monitored_barrier()
    except ValueError as error:
        if RANK == 0:
            print(error)
    for dtype in (torch.float32, torch.int64):
        mean = torch.tensor([RANK, 2 * RANK], dtype=dtype, device="cuda")
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if RANK == 0:
            print(mean.tolist())
    gathered = [None, None]
    dist.all_gather_object(gathered, RANK)
    opened = torch.cuda.memory_reserved(1 - RANK)
    dist.barrier()
    gloo = dist.new_group(backend="gloo")
    both = dist.new_group(backend="cpu:gloo,cuda:nccl")
    for group in (gloo, both):
        dist.all_reduce(torch.ones(1), group=group)
        dist.all_reduce(here, group=group)
    if RANK == 0:
        print(here.item(), gathered, opened)


def attempt(action):
    try:
        action()
    except Exception as error:
        if RANK == 1:
            print(f"{type(error).__name__}: {error}")


if rule == "unbound":
    # Every rank's current device is cuda:0.
    dist.init_process_group("nccl")
    data_parallel = nn.parallel.DistributedDataParallel
    attempt(lambda: data_parallel(Converts().cuda(), device_ids=[RANK]))
    attempt(lambda: dist.all_gather_object([None, None], RANK))
    attempt(lambda: data_parallel(Converts().to(RANK))(np.ones((1, 4))))
elif rule == "eager":
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
elif rule == "barrier":
    from ddpdoctor.virtual import on_context

    opened = []
    on_context(opened.append)
    dist.init_process_group("nccl")
    dist.barrier()
    contexts = [None, None]
    dist.all_gather_object(contexts, opened, group=dist.new_group(backend="gloo"))
    if RANK == 0:
        print(contexts)
    dist.destroy_process_group()
elif rule == "unused":
    dist.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(Spanning())
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
elif rule == "nodes":
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl")
    total = torch.ones(1, device="cuda")
    dist.all_reduce(total)
    print(total.item(), torch.cuda.current_device(), os.environ["GROUP_RANK"])
    dist.destroy_process_group()
elif rule == "absent":
    dist.init_process_group("nccl", timeout=timedelta(seconds=5))
    if RANK == 0:
        dist.all_reduce(torch.ones(1, device="cuda"))
    else:
        import time

        time.sleep(20)
else:
    several()
    dist.destroy_process_group()
