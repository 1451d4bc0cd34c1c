"""DDP404: a call that opens a context on cuda:0 in an unbound process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("torch.cuda.synchronize()", "torch.cuda.synchronize"),
        ("torch.cuda.mem_get_info()", "torch.cuda.mem_get_info"),
        ("torch.cuda.current_stream()", "torch.cuda.current_stream"),
        ("torch.cuda.Stream()", "torch.cuda.Stream"),
        ("torch.ones(1).pin_memory()", "pin_memory"),
        ('torch.cuda.synchronize("cuda")', "torch.cuda.synchronize"),
    ],
)
def test_a_context_on_the_current_device(check: Check, call: str, name: str) -> None:
    found = check(f"""
    dist.init_process_group("nccl")
    {call}  # DDP404: warning
    """)
    assert found["DDP404"].message.startswith(name)


def test_emptying_the_cache_opens_nothing_before_cuda_has_started(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.cuda.empty_cache()
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    torch.cuda.empty_cache()  # DDP404
    """)


@pytest.mark.parametrize(
    "lines",
    [
        "torch.cuda.set_device(local_rank); torch.cuda.synchronize()",
        "torch.cuda.synchronize(local_rank)",
        "torch.cuda.synchronize(device=torch.device('cuda', local_rank))",
        "torch.cuda.mem_get_info(local_rank)",
        "torch.cuda.memory_allocated()",
        "torch.cuda.device_count()",
        "torch.cuda.init()",
        "torch.cuda.manual_seed_all(0)",
        "if dist.get_rank() == 0: torch.cuda.synchronize()",
    ],
)
def test_no_context_on_another_gpu(check: Check, lines: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    {lines}
    """)


def test_emptying_the_cache_where_cuda_may_have_started(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    if unknown():
        torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    torch.cuda.empty_cache()
    """)


def test_a_thread_has_a_rule_of_its_own(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    threading.Thread(target=lambda: torch.cuda.synchronize()).start()  # DDP209
    """)


@pytest.mark.parametrize(
    "lines",
    [
        'dist.init_process_group("gloo"); torch.cuda.synchronize()',
        'dist.init_process_group("nccl"); torch.cuda.synchronize(unknown())',
        "torch.cuda.synchronize()",
    ],
)
def test_another_device_or_no_job_of_ranks(check: Check, lines: str) -> None:
    check(lines)
