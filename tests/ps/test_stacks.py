"""Stacks of running ranks, by the real py-spy, and the reasons why there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.gpus.placement import RankRow
from ddpdoctor.probe.results import Place
from ddpdoctor.ps import stacks as module
from ddpdoctor.ps.stacks import py_spy, stacks

EVALUATE = """
import subprocess
def evaluate():
    print("ready", flush=True)
    subprocess.run(["sleep", "300"])
evaluate()
"""


def rows(pids):
    return [RankRow(rank, rank, pid, None, (), None) for rank, pid in enumerate(pids)]


def test_the_odd_rank_stands_out(start, start_job, tmp_path):
    spy = py_spy()
    if spy is None:
        pytest.skip("py-spy is not installed")
    program = tmp_path / "evaluate.py"
    program.write_text(EVALUATE)
    pids, odd = start_job(2), start(f"import runpy; runpy.run_path({str(program)!r})")
    odd.stdout.readline()
    groups = stacks(rows([*pids, odd.pid]), spy)
    if "not permitted" in groups[0].problem:
        pytest.skip("tracing other processes is not permitted here")
    assert [(group.ranks, group.odd) for group in groups] == [((0, 1), False), ((2,), True)]
    assert groups[0].frames == ("<string>:4 in train", "<string>:5 in <module>")
    assert groups[0].place == Place("<string>", 4, "")
    # The innermost frames are the standard library's.
    assert "subprocess.py" in groups[1].frames[0]
    assert groups[1].place == Place(str(program), 5, 'subprocess.run(["sleep", "300"])')


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (
            "echo 'Permission denied (os error 13)' >&2; exit 1",
            "py-spy, pid 7: tracing it is not permitted; try as root",
        ),
        (
            "echo 'Error: Failed to find python' >&2; exit 1",
            "py-spy, pid 7: Error: Failed to find python",
        ),
        ("exit 1", "py-spy, pid 7: it failed without a word"),
        ("echo '['", "py-spy, pid 7: its answer cannot be read"),
        ("echo '[]'", "py-spy, pid 7: it saw no thread"),
        ("exec sleep 60", "py-spy had no answer from pid 7 in 1 seconds"),
    ],
)
def test_why_there_is_no_stack(tmp_path: Path, monkeypatch, script, problem):
    monkeypatch.setattr(module, "_SECONDS", 1)
    spy = tmp_path / "py-spy"
    spy.write_text(f"#!/bin/sh\n{script}\n")
    spy.chmod(0o755)
    [group] = stacks(rows([7]), str(spy))
    assert (group.frames, group.problem) == ((), problem)


def test_py_spy_is_looked_for_beside_python_and_in_the_path(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert py_spy() is None
    for folder in (tmp_path, tmp_path / "venv"):
        folder.mkdir(exist_ok=True)
        (folder / "py-spy").write_text("#!/bin/sh\n")
        (folder / "py-spy").chmod(0o755)
        assert py_spy() == str(folder / "py-spy")
