"""A program that starts its ranks itself is probed without torchrun; every process reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddpdoctor.probe.results import ProbeRun

_PROGRAM = """
import os
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def worker(index, store):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=index, world_size=2)
    net = torch.nn.Linear(4, 1).cuda()
    ddp = DistributedDataParallel(net, device_ids=[index])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.ones(6, 4)), batch_size=2, num_workers=1):
        ddp(x).sum().backward()
        optimizer.step()
    if index == 1:
        torch.ones(1).cuda(0)
        raise KeyError("validation")


if __name__ == "__main__":
    mp.spawn(worker, (os.path.abspath(__file__) + ".store",), nprocs=2)
"""


@pytest.fixture(scope="module")
def run(probed: Callable[..., ProbeRun], tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    script = tmp_path_factory.mktemp("spawn") / "train.py"
    script.write_text(_PROGRAM)
    return probed(script, launcher="none")


def test_each_spawned_process_is_its_rank_and_on_its_gpu(run: ProbeRun) -> None:
    assert [one.rank for one in run.placement.ranks] == [0, 1]
    assert [gpu.ranks for gpu in run.placement.gpus] == [(0, 1), (1,)]
    assert run.world_size == 2
    assert [one.steps for one in run.progress] == [3, 3]


def test_the_line_in_the_spawned_process_is_found(run: ProbeRun) -> None:
    (wrong,) = (one for one in run.openings if one.wrong)
    assert (wrong.rank, wrong.device) == (1, 0)
    assert wrong.place is not None
    assert wrong.place.source == "torch.ones(1).cuda(0)"


def test_the_exception_of_the_spawned_process_is_told_and_not_its_parents(run: ProbeRun) -> None:
    assert run.failure is not None
    assert (run.failure.rank, run.failure.kind) == (1, "KeyError")
    assert "ProcessRaisedException" not in run.failure.traceback
    assert "ddpdoctor" not in run.failure.traceback
