"""What the tests of the probe share: running it, and looking for what it left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.probe.launch import Job
from ddpdoctor.probe.results import ProbeRun
from ddpdoctor.probe.run import run

HANGS = Path(__file__).parents[2] / "fixtures" / "hangs"


@pytest.fixture(scope="module", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run folders stay for people to read; those of the tests go where pytest clears up."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("tmp"))
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ProbeRun]:
    """Run a script on virtual GPUs, one a rank, in this process, and give what was seen."""

    def probe(script: Path, nproc: int = 2, timeout: float = 120, **job: Any) -> ProbeRun:
        folder = tmp_path_factory.mktemp("run")
        return run(Job((str(script),), nproc, nproc, **job), folder, timeout, "test")

    return probe


@pytest.fixture(scope="session")
def probe_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`ddpdoctor probe ARGUMENTS` as a process of its own."""

    def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ddpdoctor", "probe", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=240)

    return probe


@pytest.fixture(scope="session")
def left_behind() -> Callable[[str | Path], list[str]]:
    """Command lines of running processes that have a marker in their environment or arguments."""

    def search(marker: str | Path) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                state = (process / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue  # it ended meanwhile, or belongs to somebody else
            mine = int(process.name) == os.getpid()
            if str(marker).encode() in words and state != b"Z" and not mine:
                found.append(f"{process.name}: {words!r}")
        return found

    return search
