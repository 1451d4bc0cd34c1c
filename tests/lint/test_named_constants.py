"""A constant index that a file gives a name to, in a program that starts its ranks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.lint import fix, lint, repair

PROGRAM = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

GPU = 0{more}


def place(model, slot):
    return model.cuda({gpu})


def worker(slot, world):
    dist.init_process_group("nccl", rank=slot, world_size=world)
    model = DDP(place(torch.nn.Linear(2, 2), slot), device_ids=[{gpu}])
    print("on GPU %d" % {gpu}, {use})


if __name__ == "__main__":
    mp.spawn(worker, nprocs=2, args=(2,))
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


@pytest.mark.parametrize(
    "use",
    ['model(torch.ones(1, 2, device=f"cuda:{{{gpu}}}"))', "dict(GPU=torch.device({gpu})), mp.GPU"],
)
def test_the_rank_is_written_wherever_the_name_is_read(train: Path, use: str) -> None:
    def program(gpu: str) -> str:
        return PROGRAM.format(more="", gpu=gpu, use=use.format(gpu=gpu))

    train.write_text(program("GPU"))
    assert fix([train], unsafe=True).linted.findings == ()
    assert train.read_text() == program("slot")
    assert repair([train], unsafe=True).after == {}


@pytest.mark.parametrize(
    ("more", "use"),
    [
        ("\nDEVICE = torch.device('cuda', GPU)", "0"),  # no rank is known there
        ("\n\ndef other(x):\n    return x.cuda(GPU)", "0"),
        ("", "GPU.real"),
        ("", "lambda GPU: 1"),
        ("", "dict(a=GPU).get(GPU.b)"),
        ("", "[GPU for GPU in range(2)]"),
        ("\nGPU += 0", "0"),
        ("\nGPU, other = GPU, 1", "0"),
    ],
)
def test_a_name_with_another_reader_or_another_value_is_left(
    train: Path, more: str, use: str
) -> None:
    train.write_text(PROGRAM.format(more=more, gpu="GPU", use=use))
    assert lint([train]).findings
    assert repair([train], unsafe=True).after == {}


def test_an_index_without_a_name_is_left(train: Path) -> None:
    program = PROGRAM.format(more="", gpu="GPU[0]", use="0").replace("GPU = 0", "GPU = [0]")
    train.write_text(program)
    assert lint([train]).findings
    assert repair([train], unsafe=True).after == {}


JOB = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CARD = 1


class Job:
    def __init__(self, slot):
        self.slot = slot
        dist.init_process_group("nccl", rank=slot, world_size=2)

    def step(self):
        return torch.ones(1, device=f"cuda:{{{card}}}")


def worker(slot):
    Job(slot).step()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
"""


def test_the_rank_may_be_an_attribute(train: Path) -> None:
    train.write_text(JOB.format(card="CARD"))
    assert fix([train], unsafe=True).linted.findings == ()
    assert train.read_text() == JOB.format(card="self.slot")


def test_a_rank_in_a_dictionary_does_not_go_into_a_text(train: Path) -> None:
    program = """\
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CARD = 1


def step(config):
    return torch.ones(1, device={device})


def worker(slot):
    dist.init_process_group("nccl", rank=slot, world_size=2)
    step({{"slot": slot}})


if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
"""
    train.write_text(program.format(device='f"cuda:{CARD}"'))
    assert repair([train], unsafe=True).after == {}
    train.write_text(program.format(device="CARD"))
    assert fix([train], unsafe=True).linted.findings == ()
    assert train.read_text() == program.format(device='config["slot"]')
