"""Whether torchrun starts the ranks is found out from the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.probe.launcher import launcher_of


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("import os; rank = int(os.environ['LOCAL_RANK'])", "torchrun"),
        ("import torch.multiprocessing as mp; mp.spawn(f, nprocs=2)", "none"),
        ("from multiprocessing import Process; Process(target=f).start()", "none"),
        ("import lightning; lightning.Trainer(devices=2).fit(model)", "torchrun"),
        ("# mp.spawn(f) was here once", "torchrun"),
        ("print(", "torchrun"),
    ],
)
def test_a_program_that_starts_its_ranks_gets_no_launcher(
    tmp_path: Path, line: str, launcher: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(line)
    assert launcher_of([str(script)]) == launcher


def test_a_command_that_is_no_python_file_launches_itself() -> None:
    assert launcher_of(["/usr/bin/accelerate", "launch", "train.py"]) == "none"


def test_the_reference_job_wants_torchrun() -> None:
    assert launcher_of([]) == "torchrun"
