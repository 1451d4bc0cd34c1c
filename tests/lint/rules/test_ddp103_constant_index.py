"""DDP103: a constant GPU index, the same on every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(1).to("cuda:0")',
        "torch.ones(1).cuda(0)",
        'torch.ones(1, device="cuda:1")',
        "nn.Linear(1, 1).to(0)",
        'torch.load("x.pt", map_location="cuda:0")',
        'torch.load("x.pt", map_location={"cuda:0": "cuda:0"})',
        "torch.cuda.set_device(0)",
        'torch.set_default_device("cuda:0")',
        "torch.cuda.synchronize(0)",
        "torch.cuda.empty_cache(); torch.cuda.mem_get_info(0)",
        "FSDP(nn.Linear(1, 1), device_id=0)",
    ],
)
def test_a_constant_index(check: Check, use: str) -> None:
    imports = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP"
    found = check(imports + BOUND + f"{use}  # DDP103: error\n")
    assert "on every rank" in found["DDP103"].message


def test_the_device_id_of_the_group(check: Check) -> None:
    check("""
    dist.init_process_group("nccl", device_id=torch.device("cuda:0"))  # DDP103
    """)


def test_it_is_reported_where_the_constant_is_written(check: Check) -> None:
    found = check(
        """
    from config import DEVICE
    dist.init_process_group("nccl")
    nn.Linear(1, 1).to(DEVICE)
    torch.ones(1, device=DEVICE)
    """,
        {"config.py": 'DEVICE = "cuda:0"  # DDP103\n'},
    )
    (related,) = found["DDP103"].related
    assert (related.location.row, related.message) == (9, "takes effect here")


def test_the_default_of_an_option_is_a_warning(check: Check) -> None:
    found = check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)  # DDP103: warning
    args = parser.parse_args()
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)
    assert found["DDP103"].message.startswith("the default of --gpu is used as the GPU index")
    assert "binds the process" in found["DDP103"].behaviour


@pytest.mark.parametrize(
    "program",
    [
        'if dist.get_rank() == 0: torch.ones(1).to("cuda:0")',
        'if not args.distributed: torch.ones(1).to("cuda:0")',
        'torch.ones(1).to(local_rank if args.distributed else "cuda:0")',
        "torch.ones(1).to(local_rank)",
        'torch.ones(1).to(f"cuda:{local_rank}")',
        "torch.ones(1).to([0, 1, 2, 3][local_rank])",
        "torch.cuda.get_device_properties(0)",
        "torch.cuda.get_device_name(0)",
        "torch.cuda.device_count()",
        "torch.ones(0)",
        "model(0)",
    ],
)
def test_a_constant_that_no_rank_of_a_job_uses(check: Check, program: str) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    if args.distributed:
        dist.init_process_group("nccl")
    {program}
    """)


def test_index_zero_is_right_where_a_process_sees_one_gpu(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    dist.init_process_group("nccl")
    torch.ones(1).to("cuda:0")
    torch.cuda.set_device(0)
    """)


def test_with_gloo_and_without_a_group(check: Check) -> None:
    check("""
    torch.ones(1).to("cuda:0")
    """)
    check("""
    dist.init_process_group("gloo")
    torch.ones(1).to("cuda:0")
    """)


@pytest.mark.parametrize("there", ["x.cuda()", 'x.to("cuda")'])
def test_what_follows_a_tensor_on_gpu_0_is_no_constant_of_its_own(check: Check, there: str) -> None:
    """The tensor's own move is what has to change."""
    marker = "# DDP101" if "cuda()" in there else "# DDP102"
    check(f"""
    dist.init_process_group("nccl")  # DDP201
    x = torch.ones(1)
    y = {there}  {marker}
    z = torch.zeros(2, device=y.device)
    z = torch.zeros(2).to(y.device)
    device = y.device
    z = torch.zeros(2).to(device)
    z = nn.Linear(2, 2).to(next(nn.Linear(1, 1, device=device).parameters()).device)
    """)


@pytest.mark.parametrize("index", ["-1", "True", "local if unknown() else 0"])
def test_what_is_no_constant_index(check: Check, index: str) -> None:
    check(f"""
    local = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.ones(1, device={index})
    """)


def test_an_option_that_is_the_local_rank_by_default(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device=parser.parse_args().gpu)
    """)


def test_a_process_that_may_see_one_gpu_only(check: Check) -> None:
    check("""
    if unknown():
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda:0")
    """)
