"""A program that starts its ranks itself is probed without torchrun; every process reports."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpdoctor.probe.command import exit_code
from ddpdoctor.probe.results import ProbeReport, ProbeRun

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

_FORKS = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def worker(index, size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=size)
    DistributedDataParallel(torch.nn.Linear(4, 1).cuda(), device_ids=[index])


if __name__ == "__main__":
    torch.ones(1).cuda()
    children = [mp.Process(target=worker, args=(index, 2)) for index in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""

_OWN_RUN = """
import torch, torch.multiprocessing as mp


class Worker(mp.Process):
    def run(self):
        raise ValueError("no data")


if __name__ == "__main__":
    child = Worker()
    child.start()
    child.join()
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


def test_children_that_died_before_they_were_ranks_are_a_failure(
    probed: Callable[..., ProbeRun], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_FORKS)
    run = probed(script, launcher="none")
    assert (run.outcome, run.exit_code) == ("failed", 0)
    assert run.placement.ranks == ()
    failure = run.failure
    assert failure is not None
    assert (failure.rank, failure.kind) == (None, "RuntimeError")
    assert failure.text.startswith("Cannot re-initialize CUDA in forked subprocess")
    assert failure.traceback.count("Traceback (most recent call last):") == 1
    (finding,) = run.findings
    assert finding.code == "DDP210"
    assert f"failed at {script}:6: RuntimeError: Cannot re-init" in finding.behaviour
    assert exit_code(ProbeReport((("", run),))) == 1


def test_a_process_with_a_run_of_its_own_is_a_failure_that_the_last_line_tells(
    probe_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_OWN_RUN)
    done = probe_command("--virtual", "--nproc", "2", "--launcher", "none", str(script))
    assert done.returncode == 2
    assert done.stdout.count("Traceback (most recent call last):") == 1
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("ddpdoctor: ")]
    assert re.fullmatch(
        r"ddpdoctor: the program failed on process \d+ \(ValueError: no data\), and nothing in "
        "its placement explains it",
        said,
    )
