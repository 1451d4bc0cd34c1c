"""with: device blocks, context managers of the program, and exit stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
"""
UNBOUND = START.replace('("nccl")', '("nccl")  # DDP201')


@pytest.mark.parametrize(
    "block",
    [
        "torch.cuda.device(local_rank)",
        'torch.cuda.device(f"cuda:{local_rank}")',
        'torch.cuda.device(torch.device("cuda", local_rank))',
        "torch.cuda.device_of(torch.ones(1, device=local_rank))",
        'torch.device("cuda", local_rank)',
        "torch.no_grad(), torch.cuda.device(local_rank)",
        "(torch.cuda.device(local_rank), torch.no_grad())",
    ],
)
def test_a_device_block_binds_for_its_body(check: Check, block: str) -> None:
    check(
        START
        + f"""
with {block}:
    torch.ones(1, device=torch.device("cuda", local_rank))
"""
    )


def test_behind_the_block_the_process_is_unbound_again(check: Check) -> None:
    check(
        UNBOUND
        + """
with torch.cuda.device(local_rank):
    torch.ones(1).cuda()
torch.ones(1).cuda()  # DDP101
"""
    )


def test_a_constant_block_inside_a_bound_process(check: Check) -> None:
    check(
        START
        + """
torch.cuda.set_device(local_rank)
with torch.cuda.device(0):  # DDP103
    pass
torch.ones(1).cuda()
"""
    )


def test_the_body_runs_where_a_generator_yields(check: Check) -> None:
    check("""
    @contextlib.contextmanager
    def job(gpu):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        try:
            yield gpu
        finally:
            dist.destroy_process_group()

    with job(2) as gpu:  # DDP103
        torch.ones(1).cuda()
        torch.ones(1, device=gpu)
    """)


def test_a_method_may_be_a_context_manager(check: Check) -> None:
    check(
        UNBOUND
        + """
class Strategy:
    @contextlib.contextmanager
    def on(self, index):
        with torch.cuda.device(index):
            yield self

strategy = Strategy()
with strategy.on(local_rank) as same:
    torch.ones(1).cuda()
torch.ones(1).cuda()  # DDP101
"""
    )


def test_an_object_with_enter_and_exit(check: Check) -> None:
    check("""
    class Job:
        def __enter__(self):
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            return 2  # DDP103

        def __exit__(self, *error):
            torch.ones(1, device=3)  # DDP103

    with Job() as gpu:
        torch.ones(1).cuda()
        torch.ones(1, device=gpu)
    """)


def test_an_exit_stack_keeps_its_contexts_open(check: Check) -> None:
    check(
        START
        + """
with contextlib.ExitStack() as stack:
    stack.enter_context(torch.cuda.device(local_rank))
    torch.ones(1).cuda()
"""
    )


def test_a_return_inside_a_block_ends_the_function(check: Check) -> None:
    check(
        START
        + """
def pick():
    with open("x") as file:
        return local_rank
    return 2

torch.ones(1, device=pick())
"""
    )


def test_unknown_contexts_run_their_body(check: Check) -> None:
    check(
        START
        + """
with torch.autocast("cuda"), unknown.thing() as x, torch.no_grad():
    torch.ones(1, device=2)  # DDP103
"""
    )


def test_asynchronous_blocks(check: Check) -> None:
    check(
        START
        + """
import asyncio

class Session:
    async def __aenter__(self):
        return 2  # DDP103

    async def __aexit__(self, *error):
        pass

async def main():
    async with Session() as gpu:
        torch.ones(1, device=gpu)
    async for index in unknown():
        torch.ones(1, device=3)  # DDP103

asyncio.run(main())
"""
    )


def test_a_default_device_block(check: Check) -> None:
    check(
        UNBOUND
        + """
with torch.device("cuda"):
    torch.ones(1)  # DDP102
with torch.device("cuda:1"):  # DDP103
    torch.ones(1)
torch.ones(1)
"""
    )
