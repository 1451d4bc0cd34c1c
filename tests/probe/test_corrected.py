"""--corrected: lint's repairs run in a copy, beside the program as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpdoctor.probe.command import Request, probe
from ddpdoctor.probe.corrected import repaired_copy
from ddpdoctor.probe.launch import Job
from ddpdoctor.probe.results import ProbeReport

_MAIN = """\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from package.net import Net

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = DistributedDataParallel(Net().to(local_rank), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with open("data/size.txt") as file:
    size = int(file.read())
for _ in range(5):
    loss = model(torch.ones(size, 4)).sum()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""

_NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x.cuda())
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in {
        "pyproject.toml": "",
        "main.py": _MAIN,
        "package/__init__.py": "",
        "package/net.py": _NET,
        "data/size.txt": "3",
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def report(project: Path) -> ProbeReport:
    before = Path.cwd()
    os.chdir(project)
    try:
        return probe(
            Request(
                command=("main.py",),
                nproc=2,
                virtual=True,
                timeout=120,
                launcher=None,
                corrected=True,
                nnodes=1,
                node_rank=0,
                rendezvous=None,
            )
        )
    finally:
        os.chdir(before)


def test_before_and_after_stand_side_by_side(report: ProbeReport) -> None:
    (_, misplaced), (_, corrected) = report.runs
    assert [label for label, _ in report.runs] == ["misplaced", "corrected"]
    assert misplaced.outcome == "failed"
    assert [gpu.ranks for gpu in misplaced.placement.gpus] == [(0, 1), (1,)]
    assert corrected.outcome == "completed"
    assert corrected.findings == ()
    assert [gpu.ranks for gpu in corrected.placement.gpus] == [(0,), (1,)]
    assert [one.steps for one in corrected.progress] == [5, 5]
    assert all(one.steps_per_second and one.loss is not None for one in corrected.progress)


def test_the_diff_shows_what_was_repaired_and_the_original_is_as_it_was(
    report: ProbeReport, project: Path
) -> None:
    assert report.diff is not None
    added = [line for line in report.diff.splitlines() if line.startswith("+")]
    assert any("torch.cuda.set_device(" in line for line in added)
    assert report.to_dict()["diff"] == report.diff
    assert (project / "main.py").read_text() == _MAIN
    assert (project / "package" / "net.py").read_text() == _NET


def test_only_what_changes_is_copied_and_the_rest_is_linked_to(
    project: Path, tmp_path: Path
) -> None:
    job = Job((str(project / "main.py"), "--flag"), 2, 2)
    found = repaired_copy(job, project / "main.py", tmp_path)
    assert found is not None
    copy = tmp_path / project.name
    assert found[0].command == (str(copy / "main.py"), "--flag")
    assert not (copy / "main.py").is_symlink()
    assert (copy / "data").readlink() == project / "data"
    assert "set_device" in (copy / "main.py").read_text()


def test_a_program_that_lint_has_no_repair_for_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('nothing distributed')\n")
    assert repaired_copy(Job((str(script),), 1, 1), script, tmp_path / "copy") is None
    assert not (tmp_path / "copy").exists()
