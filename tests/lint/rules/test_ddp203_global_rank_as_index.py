"""DDP203: the global rank as a device index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
dist.init_process_group("nccl")
rank = dist.get_rank()
local_rank = int(os.environ["LOCAL_RANK"])
"""


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(rank)",
        "torch.ones(1).cuda(rank)",
        'torch.ones(1).to(f"cuda:{rank}")',
        "torch.ones(1, device=rank)",
        'torch.load("x.pt", map_location=f"cuda:{rank}")',
        "with torch.cuda.device(rank): pass",
        "DDP(nn.Linear(1, 1).to(local_rank), device_ids=[rank])",
        "DDP(nn.Linear(1, 1).to(local_rank), output_device=rank)",
        'torch.cuda.set_device(int(os.environ["RANK"]))',
        "torch.cuda.synchronize(rank)",
    ],
)
def test_the_global_rank_as_an_index(check: Check, use: str) -> None:
    found = check(START + f"{use}  # DDP203: warning\n")
    assert "numbered by local rank" in found["DDP203"].message
    assert "LOCAL_RANK" in found["DDP203"].repair


def test_device_id_of_the_group(check: Check) -> None:
    check("""
    rank = int(os.environ["RANK"])
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))  # DDP203
    """)


def test_the_pair_of_a_move_and_a_wrap(check: Check) -> None:
    check(
        START
        + """
model = nn.Linear(1, 1).to(rank)  # DDP203
DDP(model, device_ids=[rank])  # DDP203
"""
    )


@pytest.mark.parametrize(
    "use",
    [
        "nn.Linear(1, 1).cuda()",
        "torch.ones(1, device=torch.cuda.current_device())",
        "torch.ones(1).to(nn.Linear(1, 1).cuda().weight.device)",
        "FSDP(nn.Linear(1, 1), device_id=torch.cuda.current_device())",
        'torch.ones(1, device=torch.device("cuda", torch.cuda.current_device()))',
        'DDP(nn.Linear(1, 1).cuda(), [torch.device("cuda", torch.cuda.current_device())])',
    ],
)
def test_a_process_that_is_bound_by_the_global_rank_has_one_fault(check: Check, use: str) -> None:
    check(f"""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())  # DDP203
    {use}
    """)


@pytest.mark.parametrize(
    "target", ['{"": rank}', '{"": f"cuda:{rank}"}', '{"model": rank, "lm_head": rank}']
)
def test_a_device_map_by_the_global_rank(check: Check, target: str) -> None:
    check(
        START
        + f"""
from transformers import AutoModelForCausalLM
AutoModelForCausalLM.from_pretrained("gpt2", device_map={target})  # DDP203
AutoModelForCausalLM.from_pretrained("gpt2", device_map={{"": local_rank}})
"""
    )


def test_a_device_map_that_an_option_leaves_out(check: Check) -> None:
    check("""
    from accelerate import Accelerator
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--half", action="store_true")
    args = parser.parse_args()
    rank = Accelerator().process_index
    few = None if args.full else {"": rank}
    AutoModelForCausalLM.from_pretrained("gpt2", device_map=few)  # DDP203
    rare = {"": rank} if args.half else None
    AutoModelForCausalLM.from_pretrained("gpt2", device_map=rare)
    """)


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(rank % torch.cuda.device_count())",
        "torch.cuda.set_device(local_rank)",
        "torch.ones(rank)",
        "torch.manual_seed(rank)",
        "torch.utils.data.DistributedSampler([], rank=rank)",
        'open(f"log.{rank}")',
        "dist.broadcast(torch.ones(1, device=local_rank), src=rank)",
        "model(rank)",
    ],
)
def test_other_uses_of_ranks(check: Check, use: str) -> None:
    check(START + use)


def test_a_rank_under_a_condition_is_not_surely_used(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    index = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    torch.cuda.set_device(index)
    """)


@pytest.mark.parametrize(
    "setup",
    [
        "pass",
        'dist.init_process_group("gloo")',
        'os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["MY_CARD"]; dist.init_process_group()',
    ],
)
def test_without_a_job_on_gpus_or_where_a_mask_is_set(check: Check, setup: str) -> None:
    check(f"""
    {setup}
    torch.cuda.set_device(int(os.environ["RANK"]))
    """)


def test_a_device_that_is_used_often_has_one_finding(check: Check) -> None:
    found = check(
        START
        + """
device = torch.device(f"cuda:{rank}")  # DDP203
model = nn.Linear(1, 1).to(device)
model(torch.ones(1).to(device))
"""
    )
    assert [related.message for related in found["DDP203"].related] == ["takes effect here"]


def test_an_option_that_a_group_is_given_as_its_rank_is_the_global_rank(check: Check) -> None:
    """Who starts such a job gives each process another --rank, whatever its default."""
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", default=0, type=int)
    parser.add_argument("--size", default=1, type=int)
    args = parser.parse_args()
    main = args.rank == 0
    dist.init_process_group("nccl", rank=args.rank, world_size=args.size)
    torch.cuda.set_device(args.rank)  # DDP203: warning
    torch.ones(1).cuda()
    if args.rank == 0:
        torch.ones(1, device="cuda:0")
    if main:
        torch.ones(1, device="cuda:0")
    if not args.rank:
        torch.ones(1, device="cuda:0")
    """)


def test_what_only_rank_0_does_is_left_alone_where_the_rank_is_an_option(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", default=0, type=int)
    args = parser.parse_args()
    if torch.cuda.is_available():
        dist.init_process_group("nccl", rank=args.rank)  # DDP201
    torch.ones(1).cuda()  # DDP101
    if args.rank == 0:
        torch.cuda.empty_cache()
    """)


@pytest.mark.parametrize(
    "opened",
    [
        'dist.init_process_group("nccl", rank=index, world_size=count)',
        'dist.init_process_group("nccl", "env://", None, count, index)',
        'os.environ["RANK"] = str(index); dist.init_process_group("nccl")',
    ],
)
def test_the_rank_in_a_group_is_the_one_that_the_program_opened_it_with(
    check: Check, opened: str
) -> None:
    check(f"""
    def main(index, count):
        {opened}
        torch.cuda.set_device(dist.get_rank())

    if __name__ == "__main__":
        mp.spawn(main, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))
    """)


def test_the_rank_in_a_group_of_as_many_processes_as_the_machine_has_gpus(check: Check) -> None:
    check("""
    dist.init_process_group("nccl", world_size=torch.cuda.device_count())
    torch.cuda.set_device(dist.get_rank())
    """)


@pytest.mark.parametrize("kind", ["args.kind", "unseen.kind", "os.environ['KIND']"])
def test_the_module_of_a_kind_of_device_is_cudas_unless_another_is_asked_for(
    check: Check, kind: str
) -> None:
    program = f"""
    import argparse
    import unseen
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    args = parser.parse_args()
    accelerator = getattr(torch, {kind}, torch.cuda)
    dist.init_process_group("nccl", world_size=SIZE)
    accelerator.set_device(dist.get_rank())"""
    check(program.replace("SIZE", "accelerator.device_count()"))
    check(program.replace("SIZE", "args.size") + "  # DDP203: warning")


def test_the_rank_in_a_group_that_is_opened_with_a_global_rank(check: Check) -> None:
    check("""
    def main(index, node, gpus):
        rank = node * gpus + index
        dist.init_process_group("nccl", rank=rank, world_size=gpus * int(os.environ["NODES"]))
        torch.cuda.set_device(dist.get_rank())  # DDP203: warning

    if __name__ == "__main__":
        mp.spawn(main, nprocs=8, args=(int(os.environ["NODE"]), 8))
    """)


SPAWNS_OR_JOINS = """
def run(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank){mark}

parser = argparse.ArgumentParser()
parser.add_argument("--nodes", type=int, default=1)
args = parser.parse_args()
if args.nodes > 1:
    run(int(os.environ["{variable}"]), int(os.environ["WORLD_SIZE"]))
else:
    mp.spawn(run, args=(4,), nprocs=4)
"""


def test_a_script_that_starts_the_ranks_or_is_one_of_them(check: Check) -> None:
    check(SPAWNS_OR_JOINS.format(variable="RANK", mark="  # DDP203: warning"))
    check(SPAWNS_OR_JOINS.format(variable="LOCAL_RANK", mark=""))


def test_a_script_that_is_one_rank_and_starts_the_others(check: Check) -> None:
    check("""
    def run(rank):
        dist.init_process_group("nccl", rank=rank, world_size=4)
        torch.cuda.set_device(rank)

    torch.cuda.set_device(int(os.environ["RANK"]))
    dist.init_process_group("nccl")
    mp.spawn(run, nprocs=4)
    """)
