"""Whatever happens to the probe, to torchrun or in the program, nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_SECONDS = 120

# Says where it is, misplaces itself, then works without end and takes its time to stop.
_ENDLESS = """
import os, signal, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
torch.ones(1).cuda(1)
signal.signal(signal.SIGTERM, lambda *_: time.sleep(STOP) or os._exit(0))
total = torch.ones(1)
open(sys.argv[1], "w").write(f"{os.getppid()} {os.getpid()}")
while True:
    dist.all_reduce(total)
    time.sleep(0.02)
"""


class Running:
    """A probe of the endless program with one rank on two GPUs, as a process of its own."""

    def __init__(self, folder: Path, stop_seconds: float) -> None:
        self.folder = folder
        ready = folder / "ready"
        script = folder / "endless.py"
        script.write_text(_ENDLESS.replace("STOP", str(stop_seconds)))
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ddpdoctor", "probe", "--virtual", "--nproc", "2"),
                *("--output-format", "json", str(script), str(ready)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "MARKER": str(folder)},
            start_new_session=True,
        )
        deadline = time.monotonic() + _SECONDS
        while not ready.exists() or len(ready.read_text().split()) < 2:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.torchrun, self.rank = map(int, ready.read_text().split())
        time.sleep(1)  # a sample or two

    def finish(self) -> tuple[int, dict[str, object], str]:
        out, err = self.process.communicate(timeout=_SECONDS)
        return self.process.returncode, json.loads(out or "{}"), err


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[[float], Running]]:
    started: list[Running] = []

    def start(stop_seconds: float) -> Running:
        started.append(Running(tmp_path, stop_seconds))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate(timeout=_SECONDS)


Start = Callable[[float], Running]
LeftBehind = Callable[[Path], list[str]]


def test_ctrl_c_stops_the_job_and_reports_what_was_seen(
    endless: Start, left_behind: LeftBehind
) -> None:
    running = endless(0)
    running.process.send_signal(signal.SIGINT)
    code, report, _ = running.finish()
    assert code == 1
    assert report["outcome"] == "stopped"
    assert [one["rank"] for one in report["ranks"]] == [0, 1]
    assert "DDP501" in {one["code"] for one in report["findings"]}  # both were on GPU 1
    assert left_behind(running.folder) == []


def test_a_second_ctrl_c_does_not_wait_for_the_program(
    endless: Start, left_behind: LeftBehind
) -> None:
    running = endless(300)
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    running.process.send_signal(signal.SIGINT)
    _, report, _ = running.finish()
    assert report["outcome"] == "stopped"
    assert left_behind(running.folder) == []


def test_a_killed_probe_leaves_no_process(endless: Start, left_behind: LeftBehind) -> None:
    running = endless(300)
    running.process.kill()
    running.process.communicate(timeout=_SECONDS)
    deadline = time.monotonic() + _SECONDS
    while left_behind(running.folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(running.folder) == []


def test_a_killed_torchrun_is_told_and_its_ranks_end(
    endless: Start, left_behind: LeftBehind
) -> None:
    running = endless(300)
    os.kill(running.torchrun, signal.SIGKILL)
    _, report, _ = running.finish()
    assert report["outcome"] == "crashed"
    assert [one["rank"] for one in report["ranks"]] == [0, 1]
    assert left_behind(running.folder) == []


def test_a_killed_guardian_leaves_no_process(endless: Start, left_behind: LeftBehind) -> None:
    running = endless(300)
    with open(f"/proc/{running.torchrun}/stat", "rb") as stat:
        os.kill(int(stat.read().rpartition(b")")[2].split()[1]), signal.SIGKILL)
    _, report, _ = running.finish()
    assert report["outcome"] == "crashed"
    assert left_behind(running.folder) == []


_HOSTILE = r"""
import os, sys, time
import torch

print("\x1b[2J\x1b]0;owned\x07visible\x1b[0m")
for _ in range(400):
    print("x" * 65536)
print("\x1b[31mthe end\x1b[0m")
sys.stdout.flush()
os.close(1)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(3, 256):
        try:
            os.close(descriptor)
        except OSError:
            pass
    torch.ones(1)
    time.sleep(600)
"""


def test_a_program_that_prints_closes_and_daemonises_leaves_nothing(
    tmp_path: Path, left_behind: LeftBehind
) -> None:
    script = tmp_path / "hostile.py"
    script.write_text(_HOSTILE)
    ended = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "probe", "--virtual", "--nproc", "1", str(script)],
        env={**os.environ, "TMPDIR": str(tmp_path), "MARKER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    assert "the end" in ended.stdout
    assert re.search(r"1\s+process\s+that\s+the\s+program\s+left", ended.stdout)
    (folder,) = tmp_path.glob("ddpdoctor-*")
    assert sum(path.stat().st_size for path in folder.glob("*.log")) < 10 * 2**20
    assert left_behind(tmp_path) == []
