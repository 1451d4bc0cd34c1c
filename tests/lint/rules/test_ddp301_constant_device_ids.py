"""DDP301: a constant in device_ids or output_device."""

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
    "wrap",
    [
        "DDP(model, device_ids=[0])",
        "DDP(model, [0])",
        'DDP(model, device_ids=["cuda:0"])',
        'DDP(model, device_ids=[torch.device("cuda", 0)])',
        "DDP(model, device_ids=[0], output_device=0)",
        "DDP(model, output_device=0)",
        "nn.parallel.DistributedDataParallel(module=model, device_ids=[0])",
        "ids = [0]; DDP(model, device_ids=ids)",
        "DDP(model, device_ids=[0] if unknown() else [1])",
        "DDP(model, device_ids=[int('0')])",
    ],
)
def test_a_constant(check: Check, wrap: str) -> None:
    found = check(START + f"{wrap}  # DDP301: error\n")
    name = "device_ids" if "[" in wrap else "output_device"
    assert found["DDP301"].message == f"{name} is 0 on every rank"
    assert found["DDP301"].behaviour == "every rank runs its replica on cuda:0"
    assert found["DDP301"].repair == f"{name}={'[local_rank]' if '[' in wrap else 'local_rank'}"


def test_it_is_said_once_a_call(check: Check) -> None:
    check(
        START
        + """
DDP(
    model,
    device_ids=[0],  # DDP301
    output_device=0,
)
"""
    )


@pytest.mark.parametrize(
    ("place", "number", "kind"),
    [("model", 0, "safe"), ("model", 1, "unsafe"), ("model.to(0)", 0, "unsafe")],
)
def test_the_repair_is_safe_if_one_process_keeps_its_gpu(
    check: Check, place: str, number: int, kind: str
) -> None:
    marker = "  # DDP103" if "to" in place else ""
    found = check(
        START
        + f"""
model = {place}{marker}
DDP(model, device_ids=[{number}])  # DDP301
"""
    )
    assert found["DDP301"].fix is not None
    assert found["DDP301"].fix.applicability.value == kind


def test_it_is_reported_where_the_constant_is_written(check: Check) -> None:
    found = check(
        START
        + """
ids = [0]  # DDP301
DDP(model, device_ids=ids)
"""
    )
    assert [r.message for r in found["DDP301"].related] == ["wrapped here"]


def test_the_default_of_an_option_is_a_warning(check: Check) -> None:
    found = check(
        START
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=1)
DDP(model, device_ids=[parser.parse_args().gpu])  # DDP301: warning
"""
    )
    assert found["DDP301"].message == "device_ids is 1 on every rank, the default of --gpu"
    assert found["DDP301"].behaviour == "every rank runs its replica on cuda:1"
    assert found["DDP301"].related == ()


@pytest.mark.parametrize(
    "wrap",
    [
        "DDP(model)",
        "DDP(model, device_ids=[local_rank])",
        "DDP(model, device_ids=[local_rank], output_device=local_rank)",
        "DDP(model, device_ids=None, output_device=None)",
        "DDP(model, device_ids=[torch.cuda.current_device()])",
        "DDP(model, device_ids=[model.weight.device])",
        "DDP(model, device_ids=unknown())",
        "nn.DataParallel(model, device_ids=[0])",
        "DDP(model, device_ids=[0] if single else [local_rank])",
        "DDP(model, device_ids=[0] if unknown() else [local_rank])",
        "DDP(model, device_ids=[0, *unknown()])",
        "DDP(model, device_ids=[0, 1])  # DDP302",
        "if dist.get_rank() == 0: DDP(model, device_ids=[0])",
    ],
)
def test_no_constant_or_no_job_of_ranks(check: Check, wrap: str) -> None:
    check(START + f"single = dist.get_world_size() == 1\n{wrap}\n")


def test_a_process_that_sees_one_gpu(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    dist.init_process_group("nccl")
    DDP(nn.Linear(1, 1).cuda(), device_ids=[0])
    """)


def test_a_job_on_the_cpu(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    DDP(nn.Linear(1, 1).cuda(), device_ids=[0])
    """)


def test_a_constant_with_several_uses_is_one_cause(check: Check) -> None:
    found = check("""
    GPU = 0  # DDP103
    dist.init_process_group("nccl")
    DDP(nn.Linear(1, 1).cuda(GPU), device_ids=[GPU], output_device=GPU)
    """)
    assert list(found) == ["DDP103"]
