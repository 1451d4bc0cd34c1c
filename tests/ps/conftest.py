"""Jobs that the tests of ps look at: processes with a rank in their environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

WAIT = "import time\ndef train():\n    print('ready', flush=True)\n    time.sleep(300)\ntrain()"
_NOT_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID")


def _environment(**extra: object) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in _NOT_RANKS}
    return own | {name: str(value) for name, value in extra.items()}


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that waits, with more in its environment; all end with the test."""
    started: list[subprocess.Popen[str]] = []

    def one(code: str = WAIT, **extra: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=_environment(**extra),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield one
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        process.stdout.close()


@pytest.fixture
def start_job(start):
    """Starts the ranks of a job by hand, as torchrun would set their environment; their pids."""

    def job(count: int, port: int = 29501, **extra: object) -> list[int]:
        ranks = [
            start(RANK=i, LOCAL_RANK=i, WORLD_SIZE=count, MASTER_PORT=port, **extra)
            for i in range(count)
        ]
        for rank in ranks:
            assert rank.stdout.readline() == "ready\n"
        return [rank.pid for rank in ranks]

    return job


@pytest.fixture(scope="session")
def torchrun() -> Iterator[tuple[int, list[int]]]:
    """A real torchrun with two ranks that wait before any of them touches CUDA; all pids."""
    told = "os.write(1, f'rank {os.environ[\"RANK\"]} pid {os.getpid()}\\n'.encode())"
    program = f"import os; {told}\n{WAIT}"
    options = ["--standalone", "--nproc-per-node=2", "--no-python"]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, sys.executable, "-c", program],
        env=_environment(OMP_NUM_THREADS=1),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    pids: dict[int, int] = {}
    while len(pids) < 2 and (line := launcher.stdout.readline()):
        if match := re.search(r"rank (\d+) pid (\d+)", line):
            pids[int(match[1])] = int(match[2])
    yield launcher.pid, [pids[0], pids[1]]
    launcher.send_signal(signal.SIGTERM)  # torchrun ends its ranks, which have their own sessions
    launcher.wait(timeout=60)
    launcher.stdout.close()
