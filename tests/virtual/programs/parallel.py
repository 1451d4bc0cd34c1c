"""Ways to train in parallel, each to a list of losses. Run by torchrun; argument: cuda or cpu.

Prints one line of JSON from rank 0. The same program on cuda (virtual, nccl) and on cpu (gloo) must
print the same figures.
"""

import contextlib
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

warnings.filterwarnings("ignore")
KIND = sys.argv[1]
RANK = int(os.environ["LOCAL_RANK"])
if KIND == "cuda":
    torch.cuda.set_device(RANK)
DEVICE = torch.device("cuda", RANK) if KIND == "cuda" else torch.device("cpu")
IDS = [RANK] if KIND == "cuda" else None


class Net(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = norm if norm is not None else nn.Identity()
        self.second = nn.Linear(16, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, x, skip=True):
        hidden = torch.relu(self.norm(self.first(x)))
        out = self.second(hidden)
        return out if skip else out + self.unused(torch.ones(1, 2, device=x.device)).sum()


def batch(step):
    generator = torch.Generator().manual_seed(100 * RANK + step)
    return torch.randn(5, 6, generator=generator).to(DEVICE)


def net(**kwargs):
    torch.manual_seed(0)
    return Net(**kwargs).to(DEVICE)


def train(model, optimizer, steps=4, skip=True, around=lambda step: contextlib.nullcontext()):
    losses = []
    for step in range(steps):
        with around(step):
            loss = model(batch(step), skip).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def plain():
    model = DDP(net(), device_ids=IDS, find_unused_parameters=True)
    return train(model, sgd(model))


def static_graph_bucket_view():
    model = DDP(net(), device_ids=IDS, static_graph=True, gradient_as_bucket_view=True)
    return train(model, sgd(model), skip=False)


def no_sync():
    model = DDP(net(), device_ids=IDS)
    return train(
        model,
        sgd(model),
        skip=False,
        around=lambda step: model.no_sync() if step % 2 else contextlib.nullcontext(),
    )


def comm_hooks():
    losses = []
    for hook in (default_hooks.fp16_compress_hook, default_hooks.allreduce_hook):
        model = DDP(net(), device_ids=IDS)
        model.register_comm_hook(None, hook)
        losses += train(model, sgd(model), skip=False)
    model = DDP(net(), device_ids=IDS)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return losses + train(model, sgd(model), skip=False)


class Spanning(nn.Module):
    """A model on two GPUs, whose parameters alternate between them; one has sparse gradients."""

    def __init__(self, first, second):
        super().__init__()
        torch.manual_seed(RANK)  # DDP gives every rank rank 0's values
        self.first, self.second = first, second
        self.inner = nn.Linear(6, 16).to(first)
        self.outer = nn.Linear(16, 3).to(second)
        self.norm = nn.BatchNorm1d(16).to(first)
        self.table = nn.Embedding(4, 3, sparse=True).to(second)
        self.unused = nn.Linear(2, 2).to(second)

    def forward(self, x):
        hidden = self.norm(self.inner(x.to(self.first))).relu().to(self.second)
        return self.outer(hidden) + self.table(torch.tensor([RANK, 2], device=self.second)).sum(0)


def model_parallel():
    """The tutorial's ToyMpModel: no device_ids, the ranks' GPUs side by side."""
    places = [DEVICE, DEVICE]
    if KIND == "cuda":
        places = [torch.device("cuda", 2 * RANK + index) for index in range(2)]
    group = dist.new_group([0, 1])  # its communicator knows no GPU yet
    losses = []
    for views in (False, True):
        module = Spanning(*places)
        module.unused.requires_grad_(views)
        model = DDP(
            module,
            process_group=group,
            find_unused_parameters=views,
            gradient_as_bucket_view=views,
            bucket_cap_mb=0.0001,
        )
        buckets = []

        def hook(_, bucket, buckets=buckets):
            buckets.append({bucket.buffer().device, *(p.device for p in bucket.parameters())})
            return default_hooks.allreduce_hook(group, bucket)

        model.register_comm_hook(None, hook)
        losses += train_spanning(model)
        assert {len(devices) for devices in buckets} == {1}
        assert set().union(*buckets) == set(places)
        for parameter in model.parameters():
            assert parameter.grad is None or parameter.grad.device == parameter.device
    return losses


def train_spanning(model):
    losses = []
    for step in range(3):
        loss = model(batch(step)).square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad.to_dense()
                    losses.append(parameter.grad.to_dense().sum().item())
        losses.append(loss.item())
    return losses


def join():
    model = DDP(net(), device_ids=IDS)
    with model.join():
        return train(model, sgd(model), steps=3 + RANK, skip=False)[:3]


def zero():
    model = DDP(net(), device_ids=IDS)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01
    )
    return train(model, optimizer, skip=False)


def fsdp1():
    if KIND == "cpu":
        return []  # it refuses a machine without an accelerator
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    losses = []
    for original in (False, True):
        model = FSDP(net(), device_id=DEVICE, use_orig_params=original)
        losses += train(model, sgd(model), skip=False)
    return losses


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(KIND, (2,))
    model = net()
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, sgd(model), skip=False)


def tensor_parallel():
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(KIND, (2,))
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6)).to(DEVICE)
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape))
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = sgd(model)
    losses = []
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        loss = model(torch.randn(4, 6, generator=generator).to(DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def collectives():
    x = torch.arange(4.0, device=DEVICE) + RANK
    seen = []

    def keep(tensor):
        assert tensor.device == DEVICE, tensor.device
        seen.append(tensor.tolist())

    for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        y = x.clone()
        dist.all_reduce(y, operation)
        keep(y)
    y = x.clone()
    dist.broadcast(y, 1)
    keep(y)
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    keep(torch.cat(parts))
    whole = torch.empty(8, device=DEVICE)
    dist.all_gather_into_tensor(whole, x)
    keep(whole)
    part = torch.empty(2, device=DEVICE)
    dist.reduce_scatter_tensor(part, x.clone())
    keep(part)
    swapped = torch.empty_like(x)
    dist.all_to_all_single(swapped, x)
    keep(swapped)
    y = x.clone()
    dist.reduce(y, 0)
    keep(y if RANK == 0 else x)
    y = x.clone()
    works = [dist.isend(x, 1)] if RANK == 0 else [dist.irecv(y, 0)]
    for work in works:
        work.wait()
    keep(y)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, 1 - RANK), dist.P2POp(dist.irecv, y, 1 - RANK)]
    )
    for work in works:
        work.wait()
    keep(y)
    group = dist.new_group([0, 1])
    dist.all_reduce(y, group=group)
    keep(y)
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": RANK})
    boxes = [objects if RANK == 0 else None]
    dist.broadcast_object_list(boxes, 0)
    seen.append(boxes[0] == [{"rank": 0}, {"rank": 1}])
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    keep(y)
    dist.barrier()
    return seen


def sync_batch_norm():
    """SyncBatchNorm refuses the CPU, so the CPU's figures are those of the whole batch in one
    process.
    """
    if KIND == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(net(norm=nn.BatchNorm1d(16)))
        model = DDP(model, device_ids=IDS)
        x = batch(0)
        out = model(x, False).square().mean()
        out.backward()
        total = out.detach().clone()
        dist.all_reduce(total)
        return [round(total.item() / 2, 5), round(model.module.first.weight.grad.sum().item(), 4)]
    model = net(norm=nn.BatchNorm1d(16))
    parts = [torch.empty(5, 6) for _ in range(2)]
    dist.all_gather(parts, batch(0))
    out = model(torch.cat(parts), False).square().mean()
    out.backward()
    return [round(out.item(), 5), round(model.first.weight.grad.sum().item(), 4)]


def checkpoint():
    import io

    model = DDP(net(), device_ids=IDS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = train(model, optimizer, steps=2, skip=False)
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
    saved.seek(0)
    loaded = torch.load(saved, map_location=DEVICE)
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    return losses + train(model, optimizer, steps=2, skip=False)


SCENARIOS = [
    plain,
    static_graph_bucket_view,
    no_sync,
    comm_hooks,
    model_parallel,
    join,
    zero,
    fsdp1,
    fsdp2,
    tensor_parallel,
    collectives,
    sync_batch_norm,
    checkpoint,
]

dist.init_process_group("nccl" if KIND == "cuda" else "gloo")
chosen = sys.argv[2:] or [scenario.__name__ for scenario in SCENARIOS]
results = {}
for scenario in SCENARIOS:
    if scenario.__name__ in chosen:
        try:
            results[scenario.__name__] = scenario()
        except ImportError:  # fully_shard and the public DTensor came after torch 2.4
            results[scenario.__name__] = None
if RANK == 0:
    print(json.dumps(results))
dist.destroy_process_group()
