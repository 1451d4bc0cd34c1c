"""DDP303: the module is not on device_ids[0]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    ("move", "code"), [("cuda()", "DDP101"), ('to("cuda")', "DDP102"), ("to(0)", "DDP103")]
)
def test_the_module_is_on_gpu_zero(check: Check, move: str, code: str) -> None:
    group = "  # DDP201" if code != "DDP103" else ""
    found = check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl"){group}
    model = nn.Linear(1, 1).{move}  # {code}
    DDP(model, device_ids=[local_rank])  # DDP303: error
    """)
    assert "the module is on cuda:0 on every rank" in found["DDP303"].behaviour
    assert (found["DDP303"].fix is None) == (code == "DDP103")  # binding does not move that one


@pytest.mark.parametrize(
    "program",
    [
        "torch.cuda.set_device(local_rank); DDP(model.cuda(), device_ids=[local_rank])",
        "DDP(model.to(local_rank), device_ids=[local_rank])",
        'DDP(model.to(f"cuda:{local_rank}"), device_ids=[local_rank])',
        "DDP(model.to(0))  # DDP103",
        "DDP(model.to(unknown()), device_ids=[local_rank])",
        "DDP(unknown(model), device_ids=[local_rank])",
    ],
)
def test_the_module_is_there_or_nobody_says_otherwise(check: Check, program: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    model = nn.Linear(1, 1)
    {program}
    """)


@pytest.mark.parametrize(
    ("rank", "code"), [("dist.get_rank()", "DDP203"), ("options.local_rank", "")]
)
def test_other_numbers_of_a_rank(check: Check, rank: str, code: str) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int)  # {"" if code else "DDP204"}
    options = parser.parse_args()
    dist.init_process_group("nccl")
    model = nn.Linear(1, 1).to(0)  # DDP103
    DDP(model, device_ids=[{rank}])  # DDP303 {code}
    """)


@pytest.mark.parametrize(
    "program",
    [
        'dist.init_process_group("gloo"); DDP(model.to(0), device_ids=[local_rank])',
        'os.environ["CUDA_VISIBLE_DEVICES"] = unknown(); dist.init_process_group("nccl"); '
        "DDP(model.to(0), device_ids=[local_rank])",
        'dist.init_process_group("nccl"); '
        "DDP(model.to(0 if unknown() else local_rank), device_ids=[local_rank])",
        'dist.init_process_group("nccl"); '
        "DDP(model.to(0), device_ids=[0 if unknown() else local_rank])  # DDP103",
        'dist.init_process_group("nccl"); DDP(model.to(0), device_ids=unknown())  # DDP103',
        'dist.init_process_group("nccl"); DDP(model.to(1), device_ids=[0])  # DDP103 DDP301',
        'dist.init_process_group("nccl"); '
        'DDP(model.to(0), device_ids=[int(os.environ["WORLD_SIZE"])])  # DDP103',
        'dist.init_process_group("nccl"); DDP(model.to(0), device_ids=["cuda"])  # DDP103',
    ],
)
def test_what_need_not_differ(check: Check, program: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    model = nn.Linear(1, 1)
    {program}
    """)
