"""DDP207: a physical GPU number as an index under a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "index",
    [
        'int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])',
        'os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank]',
        '[int(i) for i in os.environ["CUDA_VISIBLE_DEVICES"].split(",")][local_rank]',
        'list(map(int, os.environ["CUDA_VISIBLE_DEVICES"].split(",")))[local_rank]',
    ],
)
def test_an_entry_of_the_mask_as_an_index(check: Check, index: str) -> None:
    found = check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(int({index}))  # DDP207: warning
    """)
    assert "physical GPU number" in found["DDP207"].message


def test_numbers_outside_of_the_programs_own_mask(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = "4,5"
    cards = [4, 5]
    dist.init_process_group("nccl")
    torch.cuda.set_device(cards[int(os.environ["LOCAL_RANK"])])  # DDP207: error
    """)


@pytest.mark.parametrize(
    "index",
    [
        "local_rank",
        "[0, 1][local_rank]",
        'range(len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))[local_rank]',
        "local_rank % torch.cuda.device_count()",
    ],
)
def test_the_place_in_the_mask_is_the_index(check: Check, index: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = "4,5"
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device({index})
    """)


def test_tools_that_count_physical_gpus(check: Check) -> None:
    check("""
    import pynvml, subprocess
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    card = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])
    pynvml.nvmlDeviceGetHandleByIndex(card)
    subprocess.run(["nvidia-smi", "-i", str(card)])
    """)
