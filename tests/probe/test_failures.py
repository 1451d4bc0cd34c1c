"""A failure is told once, by the rank that failed first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from ddpdoctor.probe.results import ProbeRun

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "hangs"

Probe = Callable[..., ProbeRun]


def _script(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(text)
    return script


_RAISES = """
import os, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise ValueError("no such class: <b>7</b>")
dist.all_reduce(torch.ones(1))
"""


def test_the_rank_that_raised_is_told_and_not_those_that_lost_it(
    probed: Probe, tmp_path: Path
) -> None:
    run = probed(_script(tmp_path, _RAISES), nproc=3)
    failure = run.failure
    assert failure is not None
    assert (failure.rank, failure.kind) == (1, "ValueError")
    assert failure.text == "no such class: <b>7</b>"
    assert failure.traceback.count("Traceback (most recent call last):") == 1
    assert failure.traceback.endswith("ValueError: no such class: <b>7</b>\n")
    assert "ChildFailedError" not in failure.traceback
    assert "ddpdoctor" not in failure.traceback
    assert {one.rank: one.outcome for one in run.progress} == {
        0: "stopped",
        1: "failed",
        2: "stopped",
    }
    log = Path(run.run_folder) / "rank-1.err.log"
    assert "no such class" in log.read_text()


def test_a_killed_rank_is_named_with_its_signal(probed: Probe) -> None:
    run = probed(_FIXTURES / "killed_rank.py")
    assert run.outcome == "failed"
    assert run.failure is not None
    assert (run.failure.rank, run.failure.code) == (1, -signal.SIGKILL)
    assert run.failure.text.startswith("killed by SIGKILL")


def test_a_crash_in_c_shows_the_python_line(probed: Probe, tmp_path: Path) -> None:
    text = "import os, torch, ctypes\nif os.environ['RANK'] == '1':\n    ctypes.string_at(0)\n"
    run = probed(_script(tmp_path, text))
    assert run.failure is not None
    assert (run.failure.rank, run.failure.code) == (1, -signal.SIGSEGV)
    assert f'"{tmp_path}/train.py", line 3 in <module>' in run.failure.traceback


def test_an_exit_code_without_an_exception_is_told_as_such(probed: Probe, tmp_path: Path) -> None:
    run = probed(_script(tmp_path, "import sys, torch\nsys.exit('no data in /data')\n"), nproc=1)
    assert run.failure is not None
    assert (run.failure.rank, run.failure.kind, run.failure.code) == (0, "exit", 1)
    assert run.failure.text == (
        "ended with exit code 1 and no exception; it said: no data in /data"
    )


def test_a_syntax_error_is_shown_although_no_agent_ran(probed: Probe, tmp_path: Path) -> None:
    run = probed(_script(tmp_path, "print('before'\n"), nproc=1)
    assert run.failure is not None
    assert (run.failure.rank, run.failure.kind) == (0, "SyntaxError")
    assert run.failure.text == "'(' was never closed"
    assert f'File "{tmp_path}/train.py", line 1' in run.failure.traceback


def test_nccls_words_are_explained_with_the_ranks_names(probed: Probe) -> None:
    run = probed(_FIXTURES / "shared_gpu.py")
    assert run.outcome == "failed"
    assert run.failure is not None
    assert "Duplicate GPU detected" in run.failure.text
    (finding,) = (one for one in run.findings if one.code == "DDP501")
    assert finding.ranks == (0, 1)
    assert finding.symptom.startswith("NCCL refused them here")
