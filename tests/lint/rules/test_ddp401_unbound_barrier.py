"""DDP401: a barrier of an unbound process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_a_barrier_first(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")
    dist.barrier()  # DDP401: warning
    """)
    assert "current device" in found["DDP401"].message


def test_the_world_is_the_default_group(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    dist.barrier(dist.group.WORLD)  # DDP401: warning
    """)


def test_a_barrier_after_a_collective_opens_a_context_too(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(1, device=int(os.environ["LOCAL_RANK"])))
    dist.barrier()  # DDP401: warning
    """)


@pytest.mark.parametrize(
    "lines",
    [
        "torch.cuda.set_device(local_rank); dist.init_process_group('nccl'); dist.barrier()",
        "dist.init_process_group('nccl'); dist.barrier(device_ids=[local_rank])",
        "dist.init_process_group('nccl', device_id=torch.device('cuda', local_rank));"
        " dist.barrier()",
        "dist.init_process_group('gloo'); dist.barrier()",
        "dist.init_process_group('nccl'); group = dist.new_group(backend='gloo');"
        " dist.barrier(group=group)",
        "os.environ['CUDA_VISIBLE_DEVICES'] = str(local_rank);"
        " dist.init_process_group('nccl'); dist.barrier()",
    ],
)
def test_a_barrier_that_knows_its_gpu(check: Check, lines: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    {lines}
    """)


@pytest.mark.parametrize("argument", ["device_ids=None", "group=None"])
def test_arguments_that_say_nothing(check: Check, argument: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    dist.barrier({argument})  # DDP401
    """)


def test_a_process_that_may_be_bound(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    if unknown():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.barrier()
    """)


@pytest.mark.parametrize(
    "opened",
    ['"nccl"', "dist.Backend.NCCL", '"nccl" if os.environ["KIND"] == "cuda" else "gloo"'],
)
@pytest.mark.parametrize("backend", ["dist.Backend.NCCL", "torch.distributed.Backend.NCCL"])
def test_a_barrier_of_another_backend(check: Check, opened: str, backend: str) -> None:
    check(f"""
    def main(index):
        dist.init_process_group({opened}, rank=index, world_size=2)
        if dist.get_backend() == {backend}:
            dist.barrier(device_ids=[index])
        else:
            dist.barrier()

    if __name__ == "__main__":
        mp.spawn(main, nprocs=2)
    """)
