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
    ],
)
def test_a_constant(check: Check, wrap: str) -> None:
    found = check(START + f"{wrap}  # DDP301: error\n")
    assert "is 0 on every rank" in found["DDP301"].message


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
parser.add_argument("--gpu", type=int, default=0)
DDP(model, device_ids=[parser.parse_args().gpu])  # DDP301: warning
"""
    )
    assert "the default of --gpu" in found["DDP301"].message


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
