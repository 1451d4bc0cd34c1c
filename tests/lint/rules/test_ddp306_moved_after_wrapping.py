"""DDP306: a module is moved after it was wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ddpdoctor.findings import Finding
    from tests.lint.conftest import Check

START = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "move",
    ["model.cuda()", "model.to(local_rank)", "inner.cuda()", "model.module.to(local_rank)"],
)
def test_moved_after_wrapping(check: Check, move: str) -> None:
    found = check(
        START
        + f"""
inner = nn.Linear(1, 1)
model = DDP(inner)
{move}  # DDP306: error
"""
    )
    assert [r.message for r in found["DDP306"].related] == ["wrapped here"]


@pytest.mark.parametrize(
    "program",
    [
        "model = DDP(nn.Linear(1, 1).cuda()); model.cuda()",
        "model = DDP(nn.Linear(1, 1).to(local_rank)); model.to(local_rank)",
        "model = DDP(nn.Linear(1, 1).cuda()); model.half(); model.train(); model.to(torch.half)",
        "model = nn.Linear(1, 1).cuda(); wrapped = DDP(model); nn.Linear(1, 1).cuda()",
        "model = nn.Linear(1, 1); model.cuda(); model = DDP(model)",
        "model = nn.Linear(1, 1); model.to(0); model.cuda(); model = DDP(model)  # DDP103",
    ],
)
def test_a_move_that_changes_nothing(check: Check, program: str) -> None:
    check(START + program)


def edits(finding: Finding) -> list[str]:
    assert finding.fix is not None
    return [edit.content for edit in finding.fix.edits]


def test_the_repair_moves_the_module_where_it_is_wrapped(check: Check) -> None:
    found = check(
        START
        + """
device = torch.device("cuda", local_rank)
model = DDP(nn.Linear(1, 1))
model.to(device)  # DDP306
"""
    )
    assert edits(found["DDP306"]) == ["nn.Linear(1, 1).to(device)"]


def test_the_repair_names_nothing_that_another_function_knows(check: Check) -> None:
    found = check(
        """
class Strategy:
    def __init__(self):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.local_rank)
        dist.init_process_group("nccl")

    def wrap(self, model):
        return DDP(model)

    def to_device(self, model, device=None):
        return model.to(device if device is not None else self.local_rank)  # DDP306

strategy = Strategy()
strategy.to_device(strategy.wrap(nn.Linear(1, 1)))
"""
    )
    assert edits(found["DDP306"]) == ["model.to(self.local_rank)"]


@pytest.mark.parametrize(
    "program",
    [
        "model = DDP(unknown()); model.cuda()",
        "model = DDP(nn.Linear(1, 1)); model.to(unknown())",
        "model = DDP(nn.Linear(1, 1).to(local_rank)); model.cuda()",
        "net = nn.Linear(1, 1); net.cuda() if unknown() else None; model = DDP(net); model.cuda()",
        "x = unknown(); DDP(nn.Linear(1, 1).cuda()); x.cuda()",
    ],
)
def test_a_move_that_may_change_nothing(check: Check, program: str) -> None:
    check(START + program)


def test_from_one_gpu_to_another(check: Check) -> None:
    check(
        START
        + """
model = DDP(nn.Linear(1, 1).to(local_rank))
model.to("cuda:0")  # DDP306 DDP103
"""
    )


def test_a_job_on_the_cpu(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(1, 1))
    model.cuda()
    """)
