"""Progress is readable from outside at any moment, and after a kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from ddpdoctor.probe.progress import ProgressWriter, read_progress

_KILLED = """
import os, signal, sys
from ddpdoctor.probe.progress import ProgressWriter
writer = ProgressWriter(sys.argv[1] + f"/process-{os.getpid()}.state")
writer.step(); writer.step(); writer.work()
writer.enter("all_reduce", 7, "the default group")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_last_state_of_a_killed_process_is_readable(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)])
    assert child.wait(timeout=60) == -signal.SIGKILL
    seen = read_progress(tmp_path, child.pid)
    assert seen is not None
    assert (seen.steps, seen.work, seen.collectives) == (2, 1, 1)
    assert (seen.inside, seen.operation, seen.sequence) == (True, "all_reduce", 7)
    assert seen.group == "the default group"


def test_leaving_keeps_the_name_of_the_last_collective(tmp_path: Path) -> None:
    writer = ProgressWriter(str(tmp_path / f"process-{os.getpid()}.state"))
    writer.enter("barrier", 1, "group 3")
    writer.leave()
    seen = read_progress(tmp_path, os.getpid())
    assert seen is not None
    assert (seen.inside, seen.operation) == (False, "barrier")


def test_a_forked_child_counts_for_itself(tmp_path: Path) -> None:
    writer = ProgressWriter(str(tmp_path / "process-1.state"))
    writer.step()
    writer.leave_file()
    writer.step()
    writer.move_to(str(tmp_path / "process-2.state"))
    writer.step()
    first, second = read_progress(tmp_path, 1), read_progress(tmp_path, 2)
    assert first is not None
    assert second is not None
    assert (first.steps, second.steps) == (1, 2)


def test_a_process_that_never_wrote_has_no_progress(tmp_path: Path) -> None:
    assert read_progress(tmp_path, 12345) is None
