"""DDP210: the parent uses CUDA before it starts the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

WORKER = """
def worker(index):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
"""


@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(1).cuda()",
        'torch.ones(1, device="cuda:0")',
        "nn.Linear(1, 1).to('cuda')",
        "torch.cuda.empty_cache(); torch.cuda.mem_get_info()",
    ],
)
def test_cuda_in_the_parent(check: Check, use: str) -> None:
    found = check(WORKER + f"{use}  # DDP210: error\nmp.spawn(worker, nprocs=4)\n")
    assert [r.message for r in found["DDP210"].related] == ["the ranks are started here"]


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.device_count()",
        "torch.cuda.is_available()",
        "torch.device('cuda')",
        "model = nn.Linear(1, 1)",
        "torch.manual_seed(0)",
    ],
)
def test_what_the_parent_may_do(check: Check, use: str) -> None:
    check(WORKER + f"{use}\nmp.spawn(worker, nprocs=4)\n")


def test_after_the_ranks_are_done(check: Check) -> None:
    check(WORKER + "mp.spawn(worker, nprocs=4)\ntorch.ones(1).cuda()\n")


def test_on_the_path_without_ranks(check: Check) -> None:
    check(
        WORKER
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
if not args.distributed:
    torch.ones(1).cuda()
if args.distributed:
    mp.spawn(worker, nprocs=4)
"""
    )


def test_a_child_that_is_no_rank(check: Check) -> None:
    check("""
    def log():
        print("log")

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    mp.Process(target=log).start()
    """)


def test_cache_that_is_only_emptied_where_there_is_some(check: Check) -> None:
    check(WORKER + "torch.cuda.empty_cache()\nmp.spawn(worker, nprocs=4)\n")


def test_a_rank_that_starts_ranks_of_another_job(check: Check) -> None:
    check("""
    def worker(index):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl")
        torch.ones(1).cuda()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    mp.spawn(worker, nprocs=2)
    """)


def test_a_parent_that_is_a_rank_on_another_path(check: Check) -> None:
    check("""
    def worker(index):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl")

    if unknown():
        torch.ones(1).cuda()  # DDP210
        mp.spawn(worker, nprocs=2)
    else:
        dist.init_process_group("nccl")
    """)


def test_cuda_in_the_ranks_before_others_start(check: Check) -> None:
    check(
        WORKER
        + """
mp.spawn(worker, nprocs=4)
mp.spawn(worker, nprocs=4)
"""
    )
