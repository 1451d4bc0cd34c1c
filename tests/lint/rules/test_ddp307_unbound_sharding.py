"""DDP307: FSDP in a process that chose no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

IMPORTS = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.device_mesh import init_device_mesh
local_rank = int(os.environ["LOCAL_RANK"])
"""


@pytest.mark.parametrize("shard", ["FSDP(nn.Linear(1, 1))", "fully_shard(nn.Linear(1, 1))"])
def test_sharded_on_the_current_device(check: Check, shard: str) -> None:
    found = check(
        IMPORTS
        + f"""
dist.init_process_group("nccl")  # DDP201
{shard}  # DDP307: warning
"""
    )
    assert "device_id=local_rank" in found["DDP307"].repair


@pytest.mark.parametrize(
    "program",
    [
        "torch.cuda.set_device(local_rank); dist.init_process_group('nccl'); FSDP(nn.Linear(1, 1))",
        "dist.init_process_group('nccl'); FSDP(nn.Linear(1, 1), device_id=local_rank)",
        "dist.init_process_group('nccl'); torch.cuda.set_device(local_rank); FSDP(nn.Linear(1, 1))",
        "mesh = init_device_mesh('cuda', (8,)); fully_shard(nn.Linear(1, 1), mesh=mesh)",
        "dist.init_process_group('gloo'); FSDP(nn.Linear(1, 1))",
        "FSDP(nn.Linear(1, 1))",
    ],
)
def test_sharded_on_its_own_gpu(check: Check, program: str) -> None:
    check(IMPORTS + program)


def test_the_current_device_of_an_unbound_process_is_told_as_zero(check: Check) -> None:
    check(
        IMPORTS
        + """
dist.init_process_group("nccl")
FSDP(nn.Linear(1, 1), device_id=torch.cuda.current_device())  # DDP103
"""
    )


@pytest.mark.parametrize(
    "shard",
    [
        "model = FSDP(model, device_id=local_rank)",
        "model = FSDP(model)",  # and the program moves it later, where lint may not see it
        "fully_shard(model)",
    ],
)
def test_a_sharded_module_is_no_longer_on_the_cpu(check: Check, shard: str) -> None:
    check(
        IMPORTS
        + f"""
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1)
{shard}
loss = model(torch.ones(1).cuda()).mean()
dist.all_reduce(loss)
"""
    )


@pytest.mark.parametrize(
    ("shard", "marker"),
    [
        ("FSDP(nn.Linear(1, 1), device_id=None)", "  # DDP307"),
        ("fully_shard(nn.Linear(1, 1), mesh=None)", "  # DDP307"),
        ("FSDP(nn.Linear(1, 1), device_id=unknown())", ""),
        ("FSDP(nn.Linear(1, 1), device_id=local_rank if unknown() else None)", ""),
        ("fully_shard(nn.Linear(1, 1), mesh=unknown())", ""),
    ],
)
def test_what_it_is_told(check: Check, shard: str, marker: str) -> None:
    group = "  # DDP201" if marker else ""
    check(IMPORTS + f"dist.init_process_group('nccl'){group}\n{shard}{marker}\n")


@pytest.mark.parametrize(
    ("before", "kind", "markers"),
    [
        ("torch.cuda.init()", "cuda", ("  # DDP201", "  # DDP101")),  # too late to bind
        ("pass", "cuda", ("", "")),
        ("torch.cuda.init()", "cpu", ("", "")),
        ("dist.init_process_group('gloo')", "cuda", ("", "")),
    ],
)
def test_a_mesh_opens_a_group_and_binds(
    check: Check, before: str, kind: str, markers: tuple[str, str]
) -> None:
    check(
        IMPORTS
        + f"""
{before}
init_device_mesh("{kind}", (8,)){markers[0]}
torch.ones(1).cuda(){markers[1]}
"""
    )
