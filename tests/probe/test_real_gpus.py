"""A run on GPUs that NVML knows: the mock library through the real binding, real torchrun."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

# Every rank joins the group; rank 0 then writes all of them onto GPU 0, as the driver would see
# them: a small amount at first, the peak later, and another user's process beside them.
_PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
pids = [None] * dist.get_world_size()
dist.all_gather_object(pids, os.getpid())
if dist.get_rank() == 0:
    cards = open(sys.argv[1]).read()
    for size in (300, 900, 500):
        lines = [f"proc {sys.argv[2]} {pid} {size << 20} C" for pid in pids]
        with open(sys.argv[1] + ".next", "w") as state:
            state.write(cards + "\\n".join(lines) + "\\n")
        os.replace(state.name, sys.argv[1])
        time.sleep(1.2)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def report(mock_nvml: Any, tmp_path: Any) -> dict[str, Any]:
    mock_nvml.gpus(4)
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    arguments = ("--nproc", "3", "--output-format", "json", str(script), str(mock_nvml.state))
    arguments += (mock_nvml.uuid(0),)
    ended = subprocess.run(
        mock_nvml.command("probe", *arguments),
        env=mock_nvml.environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 1, ended.stderr
    value: dict[str, Any] = json.loads(ended.stdout)
    return value


def test_processes_that_nvml_sees_are_mapped_to_ranks_with_their_peak(
    report: dict[str, Any],
) -> None:
    assert report["source"] == "nvml"
    first, *others = report["gpus"]
    pids = {one["pid"]: one["rank"] for one in report["ranks"]}
    assert {one["pid"]: one["rank"] for one in first["processes"]} == pids
    assert [one["bytes"] for one in first["processes"]] == [900 << 20] * 3
    assert [gpu["processes"] for gpu in others] == [[], [], []]
    (finding,) = report["findings"]
    assert (finding["code"], finding["ranks"]) == ("DDP501", [0, 1, 2])
    assert not any("virtual" in note for note in report["notes"])
