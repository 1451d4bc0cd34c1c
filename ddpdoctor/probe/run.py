"""One run of a program from start to diagnosis."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus import GpuSource
from ddpdoctor.gpus.nvml import NvmlSource
from ddpdoctor.gpus.virtual import VirtualSource
from ddpdoctor.probe.diagnosis import diagnose
from ddpdoctor.probe.display import progress_display
from ddpdoctor.probe.explain import explain_with_lint
from ddpdoctor.probe.launch import Job, Launch
from ddpdoctor.probe.results import ProbeRun
from ddpdoctor.probe.watch import Interrupts, watch

_LINGER_SECONDS = 3.0


def run(job: Job, folder: Path, timeout: float, title: str) -> ProbeRun:
    """Run the job and say what was seen; whatever happens, no process of it is left.

    folder: a run folder. timeout: seconds without progress that count as a hang. The first SIGINT,
    SIGTERM or SIGHUP stops the job, a second one at once; what was seen is reported all the same.
    Raises DdpdoctorError where the job cannot be started.
    """
    with _interrupts() as interrupts, progress_display(title, Console(stderr=True)) as show:
        try:
            launch = Launch(job, folder)
        except OSError as error:
            raise DdpdoctorError(f"the run cannot be started: {error.strerror}") from error
        with launch:
            source = _source(job, folder)
            try:
                linger = _LINGER_SECONDS if job.nnodes > 1 else 0
                evidence = watch(launch, source, folder, timeout, linger, interrupts, show)
            finally:
                source.close()
    for pipe in (*folder.glob("out-*"), *folder.glob("err-*")):
        pipe.unlink()
    lint = functools.cache(lambda: explain_with_lint(script_of(job)))
    seen = diagnose(job, folder, source.kind, evidence, lambda: lint()[0])
    problem = lint()[1] if lint.cache_info().currsize else ""
    return replace(seen, notes=(*seen.notes, problem)) if problem else seen


def _source(job: Job, folder: Path) -> GpuSource:
    return VirtualSource(folder / "ledger") if job.virtual else NvmlSource()


def script_of(job: Job) -> Path | None:
    """The Python file that the job runs, which lint can read."""
    for word in job.command:
        if word.endswith(".py"):
            return (job.folder or Path()) / word
    return None


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    asked = Interrupts()

    def count(_number: int, _frame: FrameType | None) -> None:
        asked.count += 1

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, count) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
