"""The first operation with tensors on different devices: its tensors, their names, its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddpdoctor.probe.results import ProbeRun

_STAGE = Path(__file__).parents[2] / "fixtures" / "article" / "2-device-id"

Probe = Callable[..., ProbeRun]


@pytest.fixture(scope="module")
def article(probed: Probe, tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    """The article's program after its first repair."""
    return probed(Path("main.py"), folder=_STAGE)


def _row(filename: Path, text: str) -> int:
    lines = filename.read_text().splitlines()
    return next(row for row, line in enumerate(lines, 1) if text in line)


def test_the_mismatch_names_operation_module_and_line(article: ProbeRun) -> None:
    (mismatch,) = article.mismatches
    assert (mismatch.rank, mismatch.operation) == (1, "addmm")
    assert mismatch.module == "pixels.linear"
    assert mismatch.place is not None
    assert mismatch.place.filename == str(_STAGE / "model.py")
    assert mismatch.place.row == _row(_STAGE / "model.py", "self.linear(x)")
    assert mismatch.place.source == "return torch.relu(self.linear(x))"
    assert mismatch.message.startswith("Expected all tensors to be on the same device")


def test_each_tensor_has_its_name_kind_and_device(article: ProbeRun) -> None:
    (mismatch,) = article.mismatches
    seen = {one.name: one for one in mismatch.tensors}
    assert {name: (one.kind, one.device, one.shape) for name, one in seen.items()} == {
        "pixels.linear.bias": ("parameter", "cuda:1", (64,)),
        "pixels.linear.weight": ("parameter", "cuda:1", (64, 64)),
        "x": ("variable", "cuda:0", (8, 64)),
    }
    assert seen["x"].made is not None
    assert seen["x"].made.row == _row(_STAGE / "model.py", ".cuda()")


def test_the_first_wrong_context_is_where_the_tensor_was_put(article: ProbeRun) -> None:
    (wrong,) = (one for one in article.openings if one.wrong)
    assert (wrong.rank, wrong.device) == (1, 0)
    assert wrong.place is not None
    assert wrong.place.row == _row(_STAGE / "model.py", ".cuda()")


def test_both_are_one_finding_with_lints_code_at_the_line_to_change(article: ProbeRun) -> None:
    (finding,) = article.findings
    assert finding.code == "DDP101"
    assert finding.filename == str(_STAGE / "model.py")
    assert finding.location is not None
    assert finding.location.row == _row(_STAGE / "model.py", ".cuda()")
    assert finding.ranks == (1,)
    assert [one.location.row for one in finding.related] == [
        _row(_STAGE / "model.py", "self.linear(x)")
    ]


_SILENT = """
import os
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.BatchNorm1d(4, affine=True).cuda()
ddp = DistributedDataParallel(model, device_ids=[local_rank])
elsewhere = 1 - local_rank
x = torch.ones(2, 4, device=f"cuda:{elsewhere}")
try:
    torch.ones(2, device="cuda") + x
except RuntimeError:
    pass
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    ddp(x).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def silent(probed: Probe, tmp_path_factory: pytest.TempPathFactory) -> ProbeRun:
    script = tmp_path_factory.mktemp("silent") / "silent.py"
    script.write_text(_SILENT)
    return probed(script)


def test_an_input_that_ddp_moves_is_told_although_nothing_is_raised(silent: ProbeRun) -> None:
    moved = [one for one in silent.mismatches if one.silent and one.operation == "DDP input"]
    assert {one.rank for one in moved} == {0, 1}
    assert moved[0].tensors[0].device != f"cuda:{moved[0].rank}"
    assert moved[0].place is not None
    assert moved[0].place.source == "ddp(x).sum().backward()"
    assert any(one.code == "DDP503" and one.severity == "warning" for one in silent.findings)


def test_a_mismatch_that_the_program_catches_is_told(silent: ProbeRun) -> None:
    caught = [one for one in silent.mismatches if not one.silent]
    assert {one.rank for one in caught} == {0, 1}
    assert caught[0].place is not None
    assert caught[0].place.source == 'torch.ones(2, device="cuda") + x'
    assert silent.outcome == "completed"
