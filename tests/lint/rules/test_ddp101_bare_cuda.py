"""DDP101: `.cuda()` without an index in a process that chose no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_a_bare_cuda_in_an_unbound_process(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")  # DDP201
    model = DDP(nn.Linear(1, 1).cuda())  # DDP101: error
    """)
    assert "never bound to its own GPU" in found["DDP101"].message
    assert "torch.cuda.set_device(local_rank)" in found["DDP101"].repair
    assert found["DDP101"].fix is not None


def test_every_use_is_reported_where_it_stands(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    for x, y in loader:
        x = x.cuda()  # DDP101
        y = y.cuda(non_blocking=True)  # DDP101
    """)


def test_a_long_chain_points_at_its_cuda(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")  # DDP201
    x = (
        torch.ones(1)
        .float()
        .cuda()  # DDP101
        .half()
    )
    """)
    assert found["DDP101"].location.column == 6


def test_the_articles_first_version(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    local_rank = int(os.environ["LOCAL_RANK"])
    model = nn.Linear(1, 1).cuda()  # DDP101
    DDP(model, device_ids=[local_rank], output_device=local_rank)  # DDP303
    """)


def test_device_id_pairs_the_group_but_does_not_bind(check: Check) -> None:
    """PyTorch issue 135279: a context still opens on cuda:0."""
    check("""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)  # DDP201
    dist.barrier()
    torch.ones(1).cuda()  # DDP101
    """)


@pytest.mark.parametrize(
    "setup",
    [
        "torch.cuda.set_device(local_rank); dist.init_process_group('nccl')",
        "dist.init_process_group('nccl'); torch.cuda.set_device(local_rank)",
        "dist.init_process_group('nccl'); torch.cuda.set_device(f'cuda:{local_rank}')",
        "torch.accelerator.set_device_index(local_rank); dist.init_process_group('nccl')",
        "dist.init_process_group('nccl'); torch.cuda.set_device(rank % torch.cuda.device_count())",
        "torch.cuda.set_device(device=local_rank); dist.init_process_group(backend='nccl')",
        "os.environ['CUDA_VISIBLE_DEVICES'] = str(local_rank); dist.init_process_group('nccl')",
        "dist.init_process_group('gloo')",
        "dist.init_process_group(backend=dist.Backend.GLOO)",
        "dist.init_process_group('mpi')",
        "pass",
    ],
)
def test_a_bare_cuda_is_right(check: Check, setup: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    rank = int(os.environ["RANK"])
    {setup}
    torch.ones(1).cuda()
    """)


def test_on_rank_zero_or_in_the_branch_for_one_gpu(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    if args.distributed:
        dist.init_process_group("nccl")
        if dist.get_rank() == 0:
            torch.ones(1).cuda()
    else:
        torch.ones(1).cuda()
    """)


def test_data_parallel_is_one_process(check: Check) -> None:
    check("""
    model = nn.DataParallel(nn.Linear(1, 1).cuda(), device_ids=[0, 1])
    """)


def test_what_other_rules_speak_of(check: Check) -> None:
    check("""
    def work():
        torch.ones(1).cuda()  # DDP209

    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda(None)  # DDP101
    torch.ones(1).cuda("cuda")  # DDP102
    threading.Thread(target=work).start()
    """)
