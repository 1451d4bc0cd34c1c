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
    assert found["DDP205"].behaviour == "every rank still sees all GPUs"
    assert [r.location.row for r in found["DDP205"].related] == [8]


def test_the_mask_after_cuda_was_asked(check: Check) -> None:
    found = check("""
    n = torch.cuda.device_count()
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # DDP205: warning
    dist.init_process_group("nccl")
    """)
    assert "was asked for its devices" in found["DDP205"].message
    assert "wherever that question has already started" in found["DDP205"].behaviour


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


@pytest.mark.parametrize(
    ("mask", "marker"),
    [
        ("unknown()", ""),
        ("options.cards", ""),
        ("options.fixed", "  # DDP205: warning"),
        ("options.own", "  # DDP205: warning"),
        ('"0,1" if unknown() else unknown()', "  # DDP205: warning"),
    ],
)
def test_a_mask_from_elsewhere_may_be_the_one_in_force(
    check: Check, mask: str, marker: str
) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cards")
    parser.add_argument("--fixed", default="0,1")
    parser.add_argument("--own", default=os.environ["LOCAL_RANK"])
    options = parser.parse_args()
    n = torch.cuda.device_count()
    os.environ["CUDA_VISIBLE_DEVICES"] = {mask}{marker}
    dist.init_process_group("nccl")
    """)


def test_cuda_that_starts_on_some_paths_only(check: Check) -> None:
    check("""
    if unknown():
        torch.cuda.init()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    dist.init_process_group("nccl")
    """)


RANK = 'os.environ["RANK"]'


@pytest.mark.parametrize(
    ("backend", "before", "after"),
    [
        ("nccl", f'{RANK} = os.environ["LOCAL_RANK"]', ""),  # for the group that opens next
        ("gloo", "", f'{RANK} = os.environ["LOCAL_RANK"]'),
        ("nccl", "", f"{RANK} = {RANK}"),
        ("nccl", "", f"{RANK} = str(int(os.environ['LOCAL_RANK']) + 8)"),
        ("nccl", "", f"{RANK} = unknown()"),
        ("nccl", "", f'{RANK} = os.environ["LOCAL_RANK"] if unknown() else {RANK}'),
        ("nccl", "", 'os.environ["OMP_NUM_THREADS"] = os.environ["LOCAL_RANK"]'),
    ],
)
def test_rank_variables_that_nobody_misreads(
    check: Check, backend: str, before: str, after: str
) -> None:
    check(f"""
    {before}
    dist.init_process_group("{backend}")
    {after}
    """)


def test_a_mask_that_is_written_after_the_process_is_bound(check: Check) -> None:
    check("""
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)  # DDP205: error
    dist.init_process_group("nccl")
    """)


def test_cuda_that_starts_on_some_machines_only(check: Check) -> None:
    check("""
    torch.ones(1, device="cuda" if unknown() else "cpu")
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    dist.init_process_group("nccl")
    """)


@pytest.mark.parametrize(
    ("use", "late"),
    [
        ("torch.cuda.synchronize(int(os.environ['LOCAL_RANK']))", "  # DDP205: error"),
        ("torch.cuda.init()", "  # DDP205: error"),
        ("torch.cuda.empty_cache()", ""),
        ('torch.ones(1).to("cpu")', ""),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", ""),
    ],
)
def test_what_starts_cuda(check: Check, use: str, late: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    {use}
    torch.ones(1)
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]{late}
    """)
