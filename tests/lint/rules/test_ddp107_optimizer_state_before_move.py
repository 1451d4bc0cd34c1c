"""DDP107: the optimizer's state is loaded while the model is still on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
state = torch.load("x.pt", map_location="cpu")
"""


@pytest.mark.parametrize("move", ["model = model.cuda()", 'model.to("cuda")', "model.cuda()"])
def test_the_state_is_loaded_before_the_move(check: Check, move: str) -> None:
    found = check(
        START
        + f"""
model = nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(state["optimizer"])  # DDP107: error
{move}
DDP(model)
"""
    )
    assert "before the model is moved" in found["DDP107"].message
    assert [r.message for r in found["DDP107"].related] == ["the model moves here"]


def test_after_the_move_or_without_one(check: Check) -> None:
    check(
        START
        + """
model = nn.Linear(1, 1).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
optimizer.load_state_dict(state["optimizer"])
DDP(model)
other = nn.Linear(1, 1)
torch.optim.Adam(other.parameters()).load_state_dict(state["other"])
"""
    )


@pytest.mark.parametrize(
    "lines",
    [
        "model.cuda(); load(); model.cuda()",
        "model.cuda(); model.cpu(); load()",
        "load(); nn.Linear(1, 1).cuda()",
        "model.cuda(); load(); DDP(nn.Linear(1, 1).cuda())",
        "load()",
    ],
)
def test_where_the_model_stays_where_it_was(check: Check, lines: str) -> None:
    check(
        START
        + f"""
model = nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters())

def load():
    optimizer.load_state_dict(state["optimizer"])

{lines}
"""
    )


@pytest.mark.parametrize(
    "order", ["load(); model.cuda(); by_hand()", "load(); by_hand(); model.cuda()"]
)
def test_a_state_that_is_moved_by_hand(check: Check, order: str) -> None:
    check(
        START
        + f"""
model = nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters())

def load():
    optimizer.load_state_dict(state["optimizer"])

def by_hand():
    for each in optimizer.state.values():
        for key, value in each.items():
            if isinstance(value, torch.Tensor):
                each[key] = value.cuda()

{order}
"""
    )


def test_what_was_done_to_the_state_before_it_was_loaded(check: Check) -> None:
    check(
        START
        + """
model = nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters())
print(len(optimizer.state))
optimizer.load_state_dict(state["optimizer"])  # DDP107
model.cuda()
"""
    )


@pytest.mark.parametrize(
    ("given", "keeps_state"),
    [("", False), (", 0.1", False), (", momentum=0", False), (", 0.1, 0.9", True), (", **o", True)],
)
def test_sgd_has_a_state_with_momentum_only(check: Check, given: str, keeps_state: bool) -> None:
    check(
        START
        + f"""
model = nn.Linear(1, 1)
o = unknown()
optimizer = torch.optim.SGD(model.parameters(){given})
optimizer.load_state_dict(state["optimizer"]){"  # DDP107" * keeps_state}
model.cuda()
"""
    )


def test_a_program_that_never_becomes_distributed(check: Check) -> None:
    check("""
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(torch.load("x.pt"))
    model.cuda()
    """)


def test_a_state_of_something_unknown(check: Check) -> None:
    check(START + "unknown().load_state_dict(state)\nnn.Linear(1, 1).cuda()\n")


def test_the_repair_moves_what_the_loading_function_can_name(check: Check) -> None:
    found = check(
        START
        + """
class Trainer:
    def __init__(self):
        self.model = nn.Linear(1, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.resume()
        self.model.cuda()

    def resume(self):
        self.optimizer.load_state_dict(state["optimizer"])  # DDP107

Trainer()
"""
    )
    fix = found["DDP107"].fix
    assert fix is not None
    assert [edit.content.strip() for edit in fix.edits] == ["self.model.cuda()"]


def test_no_repair_by_names_of_another_function(check: Check) -> None:
    found = check(
        START
        + """
def resume(optimizer):
    optimizer.load_state_dict(state["optimizer"])  # DDP107

def main():
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    resume(optimizer)
    model.cuda()

main()
"""
    )
    assert found["DDP107"].fix is None
