"""DDP205: the environment is written after it has been read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_the_mask_after_cuda_has_started(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # DDP205: error
    """)
    assert "after CUDA has started" in found["DDP205"].message
    assert [r.location.row for r in found["DDP205"].related] == [8]


def test_the_mask_after_cuda_was_asked(check: Check) -> None:
    found = check("""
    n = torch.cuda.device_count()
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # DDP205: warning
    dist.init_process_group("nccl")
    """)
    assert "was asked for its devices" in found["DDP205"].message


def test_a_mask_that_is_too_late_isolates_nobody(check: Check) -> None:
    check("""
    torch.cuda.init()
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # DDP205
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda:0")  # DDP103
    """)


def test_a_rank_variable_that_was_read_before(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")
    os.environ["RANK"] = os.environ["LOCAL_RANK"]  # DDP205: error
    """)
    assert found["DDP205"].message.startswith("RANK is written after the process group")


@pytest.mark.parametrize(
    "lines",
    [
        'os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]',
        'os.environ["LOCAL_RANK"] = str(int(os.environ["LOCAL_RANK"]))',
        'os.environ["RANK"] = os.environ["RANK"]',
        'os.environ["OMP_NUM_THREADS"] = "1"; os.environ["NCCL_DEBUG"] = "INFO"',
        'device = torch.device("cuda"); os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"',
        'env = os.environ.copy(); env["CUDA_VISIBLE_DEVICES"] = "0"',
    ],
)
def test_written_in_time_or_for_others(check: Check, lines: str) -> None:
    check(f"""
    {lines}
    dist.init_process_group("nccl")
    """)


def test_for_child_processes_of_a_program_that_is_no_rank(check: Check) -> None:
    check("""
    import subprocess
    torch.cuda.init()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    subprocess.run(["torchrun", "train.py"])
    """)
