"""DDP202: the process is bound after it has used cuda:0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    ("use", "code"),
    [
        ("x = torch.ones(1).cuda()", "DDP101"),
        ('x = torch.ones(1, device="cuda")', "DDP102"),
        ("torch.cuda.synchronize()", "DDP404"),
        ("dist.broadcast_object_list([1])", "DDP403"),
    ],
)
def test_bound_after_a_use(check: Check, use: str, code: str) -> None:
    found = check(f"""
    dist.init_process_group("nccl")
    {use}  # {code}
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # DDP202: error
    """)
    assert "too late" in found["DDP202"].message
    assert [r.location.row for r in found["DDP202"].related] == [8]


@pytest.mark.parametrize(
    "before",
    [
        "dist.init_process_group('nccl')",
        "dist.init_process_group('nccl'); dist.get_rank()",
        "dist.init_process_group('nccl'); print(torch.cuda.device_count())",
        "dist.init_process_group('nccl'); assert torch.cuda.is_available()",
        "dist.init_process_group('nccl'); device = torch.device('cuda')",
        "dist.init_process_group('nccl'); x = torch.ones(1)",
        "dist.init_process_group('nccl'); torch.manual_seed(0)",
        "dist.init_process_group('nccl'); torch.backends.cudnn.benchmark = True",
        "dist.init_process_group('nccl'); x = torch.ones(1, device=local_rank)",
    ],
)
def test_nothing_touches_cuda_between(check: Check, before: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    {before}
    torch.cuda.set_device(local_rank)
    torch.ones(1).cuda()
    """)


def test_bound_twice(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    """)


def test_a_block_behind_a_use_is_no_binding(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    with torch.cuda.device(int(os.environ["LOCAL_RANK"])):
        torch.ones(1).cuda()
    """)


def test_a_use_on_another_path(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    if not args.distributed:
        torch.ones(1).cuda()
    if args.distributed:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_what_a_thread_does_is_its_own(check: Check) -> None:
    check("""
    def use():
        torch.ones(1).cuda()  # DDP209

    def bind():
        torch.cuda.set_device(local_rank)

    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    threading.Thread(target=use).start()
    torch.cuda.set_device(local_rank)
    torch.ones(1).cuda()
    threading.Thread(target=bind).start()
    """)


def test_a_thread_that_binds_itself_does_not_bind_too_late(check: Check) -> None:
    check("""
    def bind():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    threading.Thread(target=bind).start()
    """)


def test_a_cache_that_is_emptied_before_cuda_starts_is_no_use_of_it(check: Check) -> None:
    check("""
    torch.cuda.empty_cache()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    DDP(nn.Linear(2, 2).cuda())
    """)


def test_a_cache_that_is_emptied_once_cuda_has_started(check: Check) -> None:
    check("""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    model = nn.Linear(2, 2).to(local_rank)
    torch.cuda.empty_cache()  # DDP404
    torch.cuda.set_device(local_rank)  # DDP202
    """)
