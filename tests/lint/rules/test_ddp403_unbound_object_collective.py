"""DDP403: objects sent through the current device, or with GPU tensors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

OBJECTS = [
    "dist.broadcast_object_list([1], src=0)",
    "dist.all_gather_object([None, None], {})",
    "dist.gather_object(1)",
    "dist.scatter_object_list([None], [1, 2])",
]


@pytest.mark.parametrize("call", OBJECTS)
def test_in_an_unbound_process(check: Check, call: str) -> None:
    found = check(f"""
    dist.init_process_group("nccl")  # DDP201
    {call}  # DDP403: error
    """)
    assert "through the current device" in found["DDP403"].message


@pytest.mark.parametrize("call", OBJECTS)
@pytest.mark.parametrize(
    "group",
    [
        "torch.cuda.set_device(local_rank); dist.init_process_group('nccl')",
        "dist.init_process_group('gloo')",
        "dist.init_process_group('nccl', device_id=torch.device('cuda', local_rank))",
    ],
)
def test_in_a_bound_process_or_on_the_cpu(check: Check, group: str, call: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    {group}
    {call}
    """)


def test_a_device_or_a_group_is_given(check: Check) -> None:
    check("""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    dist.broadcast_object_list([1], src=0, device=torch.device("cuda", local_rank))
    dist.all_gather_object([], 1, group=dist.new_group(backend="gloo"))
    """)


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_gather_object(out, model.state_dict())",
        "dist.all_gather_object(out, x)",
        'dist.all_gather_object(out, {"loss": x})',
        "dist.broadcast_object_list([x], src=0)",
    ],
)
def test_tensors_on_a_gpu_in_what_is_sent(check: Check, call: str) -> None:
    found = check(f"""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model, x, out = nn.Linear(1, 1).cuda(), torch.ones(1).cuda(), [None]
    {call}  # DDP403: error
    """)
    assert "hold tensors on a GPU" in found["DDP403"].message


@pytest.mark.parametrize("sent", ["x.cpu()", "x.item()", '{"loss": x.cpu()}', "x.tolist()", "[1]"])
def test_what_is_sent_from_the_cpu(check: Check, sent: str) -> None:
    check(f"""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    x, out = torch.ones(1).cuda(), [None]
    dist.all_gather_object(out, {sent})
    """)


def test_no_device_is_none(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    dist.broadcast_object_list([1], src=0, device=None)  # DDP403
    """)


@pytest.mark.parametrize("sent", ["x if unknown() else x.cpu()", "unknown(x)", "[x.cpu(), 1]"])
def test_what_may_be_sent_from_the_cpu(check: Check, sent: str) -> None:
    check(f"""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    x, out = torch.ones(1).cuda(), [None]
    dist.all_gather_object(out, {sent})
    """)


def test_one_tensor_of_several_is_enough(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    x, out = torch.ones(1).cuda(), [None]
    dist.all_gather_object(out, [x.cpu(), x])  # DDP403
    """)


def test_gpu_tensors_through_gloo_of_a_job_without_gpus(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    dist.all_gather_object([None], torch.ones(1).cuda())
    """)
