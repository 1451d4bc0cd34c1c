"""DDP206: two rules for the local index in one program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_bound_by_one_rule_and_placed_by_another(check: Check) -> None:
    found = check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    device = dist.get_rank() % torch.cuda.device_count()
    model = nn.Linear(1, 1).to(device)  # DDP206: info
    """)
    assert [r.location.row for r in found["DDP206"].related] == [7]


def test_it_is_said_once(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    device = dist.get_rank() % torch.cuda.device_count()
    torch.ones(1).to(device)  # DDP206
    torch.ones(1).to(device)
    """)


@pytest.mark.parametrize(
    "index",
    [
        'int(os.environ["LOCAL_RANK"])',
        "local_rank",
        'int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0)))',
        "dist.get_node_local_rank()",
        "torch.cuda.current_device()",
        "2 * local_rank",
    ],
)
def test_one_rule_in_several_words(check: Check, index: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    torch.ones(1, device={index})
    """)


def test_the_other_rule_everywhere(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    device = dist.get_rank() % torch.cuda.device_count()
    torch.cuda.set_device(device)
    torch.ones(1, device=device)
    """)


def test_a_fallback_for_another_launcher(check: Check) -> None:
    check("""
    if "LOCAL_RANK" in os.environ:
        device = int(os.environ["LOCAL_RANK"])
    else:
        device = int(os.environ["SLURM_PROCID"]) % torch.cuda.device_count()
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.ones(1, device=device)
    """)


@pytest.mark.parametrize(
    "program",
    [
        'dist.init_process_group("gloo"); torch.ones(1, device=counted)',
        'dist.init_process_group("nccl"); torch.ones(1, device=(counted + 1) % 4)',
    ],
)
def test_two_rules_that_need_not_meet(check: Check, program: str) -> None:
    check(f"""
    local = int(os.environ["LOCAL_RANK"])
    counted = int(os.environ["RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(local)
    {program}
    """)


def test_a_mask_decides_what_the_numbers_mean(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = unknown()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["RANK"]) % torch.cuda.device_count())
    """)


def test_the_global_rank_is_no_rule_for_the_local_index(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.ones(1, device=dist.get_rank())  # DDP203
    """)


def test_made_by_another_rule(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))  # DDP206
    """)


def test_two_jobs_have_a_rule_each(check: Check) -> None:
    check("""
    def train(index):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl", rank=index, world_size=2)

    def evaluate(index):
        dist.init_process_group("nccl", rank=index, world_size=2)
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())

    mp.spawn(train, nprocs=2)
    mp.spawn(evaluate, nprocs=2)
    """)


def test_what_is_computed_from_the_other_number(check: Check) -> None:
    check("""
    local = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.ones(1, device=2 * local)
    """)


def test_each_launcher_has_a_branch_of_its_own(check: Check) -> None:
    check("""
    def by_torchrun():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    def by_slurm():
        rank = int(os.environ["SLURM_PROCID"])
        os.environ["LOCAL_RANK"] = str(rank % torch.cuda.device_count())
        torch.cuda.set_device(rank % torch.cuda.device_count())

    parser = argparse.ArgumentParser()
    parser.add_argument("--launcher", default="pytorch")
    if parser.parse_args().launcher == "pytorch":
        by_torchrun()
    else:
        by_slurm()
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    """)


def test_a_second_rule_for_one_of_the_launchers(check: Check) -> None:
    check("""
    def by_torchrun():
        torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())

    def by_slurm():
        rank = int(os.environ["SLURM_PROCID"])
        torch.cuda.set_device(rank % torch.cuda.device_count())
        os.environ["LOCAL_RANK"] = str(rank % torch.cuda.device_count())

    if unknown() == "slurm":
        by_slurm()
    else:
        by_torchrun()
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))  # DDP206
    """)


def test_a_second_rule_behind_those_of_the_launchers(check: Check) -> None:
    check("""
    if unknown():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device=dist.get_rank() % torch.cuda.device_count())  # DDP206
    """)


@pytest.mark.parametrize("rank", ["index", "dist.get_rank()"])
def test_the_number_of_a_process_that_is_its_rank_in_the_group(check: Check, rank: str) -> None:
    check(f"""
    def work(index, size):
        dist.init_process_group("nccl", rank=index, world_size=size)
        torch.cuda.set_device(index)
        torch.ones(1, device={rank} % torch.cuda.device_count())

    mp.spawn(work, nprocs=4, args=(4,))
    """)
