"""DDP302: several device_ids for one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1).cuda()
"""


@pytest.mark.parametrize(
    "ids",
    [
        "[0, 1]",
        "list(range(torch.cuda.device_count()))",
        "range(torch.cuda.device_count())",
        "[i for i in range(torch.cuda.device_count())]",
        "list(range(4))",
        "[local_rank, local_rank + 1]",
    ],
)
def test_several_gpus(check: Check, ids: str) -> None:
    found = check(START + f"DDP(model, device_ids={ids})  # DDP302: error\n")
    assert found["DDP302"].repair == "device_ids=[local_rank]"


@pytest.mark.parametrize(
    "wrap",
    [
        "DDP(model)",
        "DDP(model, device_ids=[local_rank])",
        "nn.DataParallel(model, device_ids=[0, 1])",
        "nn.DataParallel(model, device_ids=list(range(torch.cuda.device_count())))",
        "DDP(model, device_ids=unknown())",
        "DDP(model, device_ids=list(range(torch.cuda.device_count()))[unknown() :][:1])",
        "DDP(model, device_ids=[0, 1, 2, 3][local_rank : local_rank + 1])",
        "DDP(model, device_ids=[int(i) for i in sys.argv[1].split(',')])",
    ],
)
def test_one_gpu_or_one_process(check: Check, wrap: str) -> None:
    check(START + wrap)


@pytest.mark.parametrize(
    ("ids", "markers"),
    [
        ("[0, 1] if unknown() else [local_rank]", ""),
        ("[0] if unknown() else [local_rank]", ""),
        ("[0, *unknown()]", ""),
        ("list(unknown())", ""),
        ("None", ""),
        ("[*[], *unknown()]", ""),
        ("[0, 1] if unknown() else [2, 3]", "  # DDP302"),
    ],
)
def test_what_may_be_one_gpu(check: Check, ids: str, markers: str) -> None:
    check(START + f"DDP(model, device_ids={ids}){markers}\n")


def test_several_numbers_on_the_cpu(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    DDP(nn.Linear(1, 1), device_ids=[0, 1])
    """)
