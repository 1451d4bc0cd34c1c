"""What `ddpdoctor ps` found, as text for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.probe.results import StackGroup
from ddpdoctor.ps.overview import JobView, Overview
from ddpdoctor.report.placement import gpu_words, placement_lines
from ddpdoctor.report.terminal import Screen, fit, printable, wrapped
from ddpdoctor.report.text import blocks
from ddpdoctor.report.words import count, ranks

_FRAMES = 8


def overview_text(overview: Overview, screen: Screen) -> str:
    """Each job with its table, findings and stacks; then the processes of no job."""
    lines: list[str] = []
    for number, view in enumerate(overview.jobs):
        lines += [*_job(number, view, screen), ""]
    if not overview.jobs:
        for gpu in overview.rest.gpus:
            lines += wrapped(f"GPU {gpu.index}: ", gpu_words(gpu), screen.columns)
        lines += ["", "No rank of a distributed job was found among the processes of this machine."]
    elif any(gpu.processes for gpu in overview.rest.gpus):
        lines.append("Other processes on the GPUs:")
        for gpu in overview.rest.gpus:
            for process in gpu.processes:
                label = f"  GPU {gpu.index}: pid {process.pid}, "
                lines += wrapped(label, process.note, screen.columns)
        lines.append("")
    for problem in overview.problems:
        lines += wrapped("note: ", problem, screen.columns)
    return "\n".join(lines).rstrip() + "\n"


def _job(number: int, view: JobView, screen: Screen) -> Iterator[str]:
    job = view.job
    here = count(len(view.placement.ranks), "rank")
    elsewhere = f" of {job.world_size}" if job.world_size != len(view.placement.ranks) else ""
    kind = "torchrun" if job.launcher and job.launcher.is_torchrun else "process"
    started = f", started by {kind} {job.launcher.pid}" if job.launcher else ""
    title = f"Job {number}: {here}{elsewhere}{started}"
    yield screen.style(title, bold=True)
    command = printable(shlex.join(job.command))
    yield "  " + (command if len(command) < screen.columns else fit(command, screen.columns - 2))
    on_gpus = any(gpu.ranks for gpu in view.placement.gpus)
    yield ""
    if on_gpus or view.placement.pid_mismatch:
        yield from placement_lines(replace(view.placement, problems=()), screen)
    else:
        yield "No rank holds memory on a GPU."
    for block in blocks(view.findings, screen):
        yield ""
        yield from block
    if on_gpus and not view.findings:
        yield ""
        yield "No misplacement found."
    for group in sorted(view.stacks, key=lambda group: not group.odd):
        yield ""
        yield from _stack(group, screen)


def _stack(group: StackGroup, screen: Screen) -> Iterator[str]:
    if group.problem:
        yield from wrapped(f"{ranks(group.ranks)}: ".capitalize(), group.problem, screen.columns)
        return
    stand = "stands" if len(group.ranks) == 1 else "stand"
    apart = ", apart from the others," if group.odd else ""
    where = f" at {group.place}" if group.place else " in no line of the program"
    first, *rest = wrapped("", f"{ranks(group.ranks)} {stand}{apart}{where}", screen.columns)
    yield screen.style(first[0].upper() + first[1:], "red" if group.odd else None, bold=True)
    yield from rest
    if group.place and group.place.source:
        yield f"    {printable(group.place.source)}"
    # Of imports in progress most frames are the import system's.
    frames = [frame for frame in group.frames if not frame.startswith("<frozen ")]
    yield from (f"  {printable(frame)}" for frame in frames[:_FRAMES])
    if len(frames) > _FRAMES:
        yield f"  and {len(frames) - _FRAMES} frames further out"
