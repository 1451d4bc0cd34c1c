"""os.environ: what the launcher sets there, and what the program writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "read",
    [
        'os.environ["RANK"]',
        'os.environ.get("RANK")',
        'os.environ.get("RANK", "0")',
        'os.environ.get("RANK", default=-1)',
        'os.getenv("RANK")',
        'os.getenv("RANK", 0)',
        'os.environ.copy()["RANK"]',
        'dict(os.environ)["RANK"]',
        'os.environ.setdefault("RANK", "0")',
        'os.environ.pop("RANK")',
        'env["RANK"]',
        'from_os["RANK"]',
        'getenv("RANK")',
    ],
)
def test_a_rank_variable_is_read_in_many_ways(check: Check, read: str) -> None:
    check(f"""
    from os import environ as from_os, getenv
    env = os.environ
    dist.init_process_group("nccl")
    torch.ones(1, device=int({read}))  # DDP203
    """)


@pytest.mark.parametrize(
    ("variable", "code"),
    [
        ("LOCAL_RANK", None),
        ("RANK", "DDP203"),
        ("GROUP_RANK", None),
        ("MY_GPU", None),
    ],
)
def test_what_torchrun_sets(check: Check, variable: str, code: str | None) -> None:
    check(f"""
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["{variable}"]))  # {code}
    """)


@pytest.mark.parametrize(
    ("variable", "code"), [("SLURM_LOCALID", None), ("SLURM_PROCID", "DDP203")]
)
def test_what_srun_sets(check: Check, variable: str, code: str | None) -> None:
    check(f"""
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["{variable}"]))  # {code}
    """)


def test_a_variable_of_ones_own_has_its_default(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ.get("MY_GPU", 2)))  # DDP103: warning
    """)


def test_a_rank_variable_of_the_launcher_beats_the_default(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ.get("LOCAL_RANK", 0)))
    torch.ones(1, device=int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0))))
    """)


@pytest.mark.parametrize(
    "write",
    [
        'os.environ["GPU"] = "2"',
        'os.environ.update(GPU="2")',
        'os.environ.update({"GPU": "2"})',
        'os.environ.setdefault("GPU", "2")',
        'os.environ |= {"GPU": "2"}',
    ],
)
def test_what_the_program_writes_it_reads_back(check: Check, write: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    {write}  # DDP103
    torch.ones(1, device=int(os.environ["GPU"]))
    """)


def test_a_variable_that_was_taken_away_is_not_read_back(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    os.environ["GPU"] = "2"
    del os.environ["GPU"]
    torch.ones(1, device=int(os.environ.get("GPU", 3)))  # DDP103
    """)


def test_setdefault_keeps_what_the_launcher_set(check: Check) -> None:
    check("""
    os.environ.setdefault("LOCAL_RANK", "0")
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    """)


def test_a_variable_written_on_one_branch_is_the_launchers_on_the_other(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone", action="store_true")
    args = parser.parse_args()
    if args.alone:
        os.environ["LOCAL_RANK"] = "0"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_a_program_for_srun_has_no_torchrun_variables(check: Check) -> None:
    check("""
    local_rank = int(os.environ["SLURM_LOCALID"])
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = str(local_rank)
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    torch.ones(1, device=int(os.environ["RANK"]))  # DDP203
    """)


@pytest.mark.parametrize("read", ['environ.get("SLURM_LOCALID")', 'getenv("SLURM_LOCALID", None)'])
def test_int_relies_on_a_variable_without_a_default(check: Check, read: str) -> None:
    found = check(f"""
    local_rank = int(os.{read})
    dist.init_process_group("nccl", rank=int(os.environ.get("SLURM_PROCID")))  # DDP201
    torch.ones(1).cuda()  # DDP101
    """)
    assert found["DDP201"].fix is not None
    added = [edit.content.strip() for edit in found["DDP201"].fix.edits]
    assert added == ["torch.cuda.set_device(local_rank)"]


def test_a_variable_that_is_tried_first_may_be_missing(check: Check) -> None:
    check("""
    local_rank = os.environ.get("SLURM_LOCALID") or os.environ["LOCAL_RANK"]
    torch.cuda.set_device(int(local_rank))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_each_process_may_be_given_its_own_gpu(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    torch.ones(1, device="cuda:0")
    DDP(nn.Linear(1, 1).cuda(), device_ids=[0])
    """)


def test_one_mask_for_all_processes_isolates_none(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    """)


def test_a_mask_that_spawned_processes_share_isolates_none(check: Check) -> None:
    check("""
    def work(rank):
        dist.init_process_group("nccl", rank=rank)  # DDP201
        torch.ones(1).cuda()  # DDP101

    def work_alone(rank, gpus):
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[rank]
        dist.init_process_group("nccl", rank=rank)
        torch.ones(1).cuda()

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus")
        gpus = parser.parse_args().gpus
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
        mp.spawn(work, nprocs=torch.cuda.device_count())
        mp.spawn(work_alone, (gpus.split(","),), nprocs=torch.cuda.device_count())
    """)


def test_a_mask_written_before_the_import_counts_as_well(check: Check) -> None:
    check("""
    def isolate():
        os.environ.update(CUDA_VISIBLE_DEVICES=str(int(os.environ["LOCAL_RANK"])))

    isolate()
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_whether_a_variable_is_set_is_one_question(check: Check) -> None:
    check("""
    device = 0
    if "MY_CLUSTER" in os.environ:
        dist.init_process_group("nccl")
    if "MY_CLUSTER" in os.environ:
        device = int(os.environ["LOCAL_RANK"])
    torch.ones(1, device=device)
    """)


def test_without_torchrun_there_is_no_job(check: Check) -> None:
    check("""
    if "LOCAL_RANK" not in os.environ:
        torch.ones(1).cuda()
        sys.exit()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_processes_that_the_program_starts_have_no_variables_of_torchrun(check: Check) -> None:
    check("""
    def worker(rank, world):
        dist.init_process_group("nccl", rank=rank, world_size=world)
        index = int(os.environ.get("LOCAL_RANK", 0))  # DDP103: warning
        nn.Linear(1, 1).to(f"cuda:{index}")

    if __name__ == "__main__":
        mp.spawn(worker, args=(2,), nprocs=2)
    """)


def test_variables_that_a_started_process_writes_itself(check: Check) -> None:
    check("""
    def worker(rank, world):
        os.environ["LOCAL_RANK"] = str(rank)
        dist.init_process_group("nccl", rank=rank, world_size=world)
        nn.Linear(1, 1).to(f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}")

    if __name__ == "__main__":
        mp.spawn(worker, args=(2,), nprocs=2)
    """)


def test_where_ranks_meet_may_be_said_under_another_launcher(check: Check) -> None:
    check("""
    if "MASTER_ADDR" not in os.environ:
        raise KeyError("MASTER_ADDR")
    torch.cuda.set_device(int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda:0")  # DDP103
    """)
