"""`ddpdoctor ps`: look once, print, and say by the exit code whether something is wrong."""

from __future__ import annotations

import json
import sys

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.nvml import NvmlSource
from ddpdoctor.gpus.nvml_binding import NoGpu
from ddpdoctor.gpus.snapshot import GpuSource
from ddpdoctor.gpus.virtual import VirtualSource
from ddpdoctor.ps.overview import look
from ddpdoctor.ps.text import overview_text
from ddpdoctor.report.terminal import Screen, write


def ps(ledger: str | None, with_stacks: bool, output_format: str) -> int:
    """0 where nothing is wrong, 1 with findings; ledger: of virtual GPUs, None for real ones.

    Raises DdpdoctorError where the GPUs cannot be asked.
    """
    source = _source(ledger)
    try:
        overview = look(source, with_stacks)
    finally:
        source.close()
    if output_format == "json":
        text = json.dumps(overview.to_dict(), indent=2) + "\n"
    else:
        text = overview_text(overview, Screen.of(sys.stdout))
    write(text, sys.stdout)
    return 1 if overview.findings else 0


def _source(ledger: str | None) -> GpuSource:
    if ledger:
        return VirtualSource(ledger)
    try:
        return NvmlSource()
    except NoGpu as error:
        raise DdpdoctorError(
            f"{error} (to look at a run on virtual GPUs, give its ledger: --ledger FOLDER)"
        ) from error
