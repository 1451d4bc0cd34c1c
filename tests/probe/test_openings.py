"""The line that opened a wrong GPU is the program's, also where ddpdoctor's own code is between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ddpdoctor.probe.results import ProbeRun

_PROGRAM = """
import os
import torch, torch.distributed as dist

dist.init_process_group("nccl")
torch.ones(1).to(int(os.environ["LOCAL_RANK"]))
dist.barrier()
"""


def test_an_unbound_barrier_is_named_at_the_programs_own_line(
    probed: Callable[..., ProbeRun], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    run = probed(script)
    (wrong,) = (one for one in run.openings if one.wrong)
    assert (wrong.rank, wrong.device) == (1, 0)
    assert wrong.place is not None
    assert (wrong.place.filename, wrong.place.source) == (str(script), "dist.barrier()")
    assert run.findings
    assert {one.filename for one in run.findings} <= {str(script), None}
