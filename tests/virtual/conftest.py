"""Running programs on virtual GPUs, each with a time limit of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from ddpdoctor.virtual import environment

Launch = Callable[..., "subprocess.CompletedProcess[str]"]


def run(command: list[str], environ: dict[str, str], limit: float) -> subprocess.CompletedProcess:
    """Runs a command in a process group of its own, which is ended with it."""
    child = subprocess.Popen(
        command,
        env=environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        pytest.fail(f"{command} took more than {limit} s\n{err[-3000:]}")
    return subprocess.CompletedProcess(command, child.returncode, out, err)


@pytest.fixture(scope="session")
def torchrun() -> Launch:
    """torchrun(nproc, script, *arguments, gpus=N): gpus=0 runs on the plain CPU."""

    def launch(nproc, script, *arguments, gpus=0, limit=240, node=("--standalone",)):
        environ = environment(gpus) if gpus else dict(os.environ)
        command = [sys.executable, "-m", "torch.distributed.run", *node]
        command += ["--nproc-per-node", str(nproc), str(script), *map(str, arguments)]
        return run(command, environ, limit)

    return launch
