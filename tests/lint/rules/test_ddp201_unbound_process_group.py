"""DDP201: a process group is opened and no rank has chosen its GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_the_group_of_an_unbound_process(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")  # DDP201: error
    x = torch.ones(1).cuda()  # DDP101
    """)
    (related,) = found["DDP201"].related
    assert (related.location.row, related.message) == (8, "relies on the current device")
    assert found["DDP201"].fix is not None


@pytest.mark.parametrize(
    "group",
    [
        "dist.init_process_group()",
        'dist.init_process_group(backend="nccl", init_method="env://")',
        'dist.init_process_group("cpu:gloo,cuda:nccl")',
        "torch.distributed.init_process_group(dist.Backend.NCCL)",
        'torch.distributed.distributed_c10d.init_process_group("nccl")',
    ],
)
def test_the_ways_to_open_a_group(check: Check, group: str) -> None:
    check(f"""
    {group}  # DDP201
    torch.ones(1).cuda()  # DDP101
    """)


def test_one_finding_for_many_uses(check: Check) -> None:
    found = check("""
    dist.init_process_group("nccl")  # DDP201
    a = torch.ones(1).cuda()  # DDP101
    b = torch.ones(1).cuda()  # DDP101
    c = torch.ones(1).cuda()  # DDP101
    d = torch.ones(1).to("cuda")  # DDP102
    """)
    assert len(found["DDP201"].related) == 3


@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(1, device=local_rank)",
        "torch.ones(1).to(torch.device('cuda', local_rank))",
        "DDP(nn.Linear(1, 1).to(local_rank), device_ids=[local_rank])",
        "torch.ones(1)",
        "torch.cuda.set_device(local_rank); torch.ones(1).cuda()",
    ],
)
def test_no_binding_is_asked_for_where_none_is_needed(check: Check, use: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    {use}
    """)


def test_a_process_bound_before(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_binding_that_comes_too_late_is_another_rule(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.ones(1).cuda()  # DDP101
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # DDP202
    """)


def test_gloo_needs_no_gpu(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    torch.ones(1).cuda()
    """)


def test_only_the_group_of_the_path_that_needs_a_binding(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--index", action="store_true")
    args = parser.parse_args()
    if args.index:
        dist.init_process_group("nccl")
        torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    else:
        dist.init_process_group("nccl")  # DDP201
        torch.ones(1).cuda()  # DDP101
    """)


def test_a_thread_is_not_cured_by_binding_the_process(check: Check) -> None:
    check("""
    def work():
        torch.ones(1).cuda()  # DDP209

    dist.init_process_group("nccl")
    threading.Thread(target=work).start()
    """)


def test_what_else_relies_on_the_current_device(check: Check) -> None:
    check("""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def first(index):
        dist.init_process_group("nccl")  # DDP201
        FSDP(nn.Linear(1, 1))  # DDP307

    def second(index):
        dist.init_process_group("nccl")  # DDP201
        dist.broadcast_object_list([1])  # DDP403

    def third(index):
        dist.init_process_group("nccl")
        FSDP(nn.Linear(1, 1), device_id=index)
        dist.barrier()  # DDP401
        torch.cuda.synchronize()  # DDP404

    mp.spawn(first, nprocs=2)
    mp.spawn(second, nprocs=2)
    mp.spawn(third, nprocs=2)
    """)


def test_what_another_process_or_a_block_binds_does_not_count(check: Check) -> None:
    check("""
    def child():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    with torch.cuda.device(int(os.environ["LOCAL_RANK"])):
        torch.ones(1).cuda()
    mp.Process(target=child).start()
    """)


def test_a_checkpoint_without_a_mapping_asks_for_no_binding(check: Check) -> None:
    check("""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    model = nn.Linear(1, 1).to(local_rank)
    model.load_state_dict(torch.load("x.pt"))  # DDP104
    """)
