"""Ranks of another user: /proc hides their environment, which is where the rank is written."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ddpdoctor

MIB = 2**20
AS_NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
LOOK = """
import ctypes, json, sys
ctypes.CDLL(sys.argv[1])
from ddpdoctor.gpus.nvml import NvmlSource
from ddpdoctor.ps.overview import look
print(json.dumps(look(NvmlSource(), False).to_dict()))
"""


def open_python() -> str | None:
    """A Python that any user may run (one below /root may not be)."""
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            code = "import sys; sys.exit(sys.version_info < (3, 10))"
            run = subprocess.run([python, "-c", code], cwd="/", env={}, timeout=60, **AS_NOBODY)
        except OSError:
            continue
        if run.returncode == 0:
            return python
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look with another user's eyes")
def test_they_are_shown_without_rank_and_with_the_reason(mock_nvml, torchrun):
    python = open_python()
    if python is None:
        pytest.skip("there is no Python that another user may run")
    launcher, pids = torchrun
    mock_nvml.gpus(2, *(f"proc 0 {pid} {MIB} C" for pid in pids))
    # pytest's folders and maybe this checkout are closed to others: look from an open copy.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        shutil.copytree(Path(ddpdoctor.__file__).parent, folder / "ddpdoctor")
        shutil.copy(importlib.util.find_spec("pynvml").origin, folder)
        shutil.copy(mock_nvml.state, folder / "state")
        shutil.copy(mock_nvml.library, folder / "libnvidia-ml.so.1")
        done = subprocess.run(
            [python, "-c", LOOK, str(folder / "libnvidia-ml.so.1")],
            env={"MOCK_NVML_STATE": str(folder / "state"), "PYTHONPATH": str(folder)},
            cwd=folder,
            **AS_NOBODY,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [row for row in answer["ranks"] if row["pid"] in pids] == []
    processes = answer["gpus"][0]["processes"]
    assert sorted(process["pid"] for process in processes) == sorted(pids)
    for process in processes:
        assert process["rank"] is None
        assert f" of user root, started by torchrun (pid {launcher}): " in process["note"]
        assert "its environment may not be read" in process["note"]
