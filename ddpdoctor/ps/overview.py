"""Everything `ddpdoctor ps` shows: jobs, GPUs, findings, and what could not be read."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ddpdoctor.findings import Finding
from ddpdoctor.gpus.misplacement import misplacements
from ddpdoctor.gpus.pids import match
from ddpdoctor.gpus.placement import GpuRow, Placement, place
from ddpdoctor.gpus.snapshot import GpuSource, Snapshot
from ddpdoctor.probe.results import StackGroup
from ddpdoctor.ps.jobs import Job, jobs, why_no_rank
from ddpdoctor.ps.processes import Process, running
from ddpdoctor.ps.stacks import NOT_INSTALLED, py_spy, stacks

SCHEMA = 1


@dataclass(frozen=True)
class JobView:
    """A job with its own table, in which all other processes have no rank but a note."""

    job: Job
    placement: Placement
    findings: tuple[Finding, ...]
    stacks: tuple[StackGroup, ...]


@dataclass(frozen=True)
class Overview:
    """The machine at one moment.

    source: "nvml" or "virtual". rest: the GPUs with those processes that are of no job. problems:
    what could not be read, a line each.
    """

    source: str
    jobs: tuple[JobView, ...]
    rest: Placement
    problems: tuple[str, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for view in self.jobs for finding in view.findings)

    def to_dict(self) -> dict[str, Any]:
        """As a probe's object, with the place in jobs wherever a job matters (null: of none)."""
        views = list(enumerate(self.jobs))
        return {
            "schema": SCHEMA,
            "source": self.source,
            "jobs": [_job_dict(view) for view in self.jobs],
            "ranks": [
                row.to_dict() | {"job": n} for n, view in views for row in view.placement.ranks
            ],
            "gpus": [self._gpu_dict(gpu) for gpu in self.rest.gpus],
            "findings": [
                found.to_dict() | {"job": n} for n, view in views for found in view.findings
            ],
            "problems": list(self.problems),
        }

    def _gpu_dict(self, gpu: GpuRow) -> dict[str, Any]:
        ranks = [
            process.to_dict() | {"job": number}
            for number, view in enumerate(self.jobs)
            for row in view.placement.gpus
            if row.uuid == gpu.uuid
            for process in row.processes
            if process.rank is not None
        ]
        others = [process.to_dict() | {"job": None} for process in gpu.processes]
        return gpu.to_dict() | {"processes": ranks + others}


def look(source: GpuSource, with_stacks: bool) -> Overview:
    """One look at the machine."""
    snapshot = source.snapshot()
    # An ended process may stay listed at 0 bytes, as evidence; here it is over.
    holders = {p.pid for gpu in snapshot.gpus for p in gpu.processes if p.bytes != 0}
    snapshot = _only(snapshot, holders)
    processes = running()
    found = jobs(processes, holders, snapshot.gpus)
    notes = _notes(processes, holders, found)
    spy = py_spy() if with_stacks else None
    views = tuple(_view(job, snapshot, notes, spy) for job in found)
    of_jobs = {pid for job in found for pid in match(holders, job.ranks)}
    rest = place([_only(snapshot, holders - of_jobs)], (), notes)
    problems = [line for view in views for line in view.placement.problems]
    problems += [] if views else rest.problems
    problems += [note for job in found for note in job.notes]
    problems += [NOT_INSTALLED] if with_stacks and not spy else []
    return Overview(source.kind, views, rest, tuple(dict.fromkeys(problems)))


def _only(snapshot: Snapshot, pids: Collection[int]) -> Snapshot:
    gpus = (
        replace(gpu, processes=tuple(p for p in gpu.processes if p.pid in pids))
        for gpu in snapshot.gpus
    )
    return replace(snapshot, gpus=tuple(gpus))


def _notes(
    processes: Mapping[int, Process], holders: Collection[int], found: Sequence[Job]
) -> dict[int, str]:
    notes = {pid: why_no_rank(processes[pid], processes) for pid in holders if pid in processes}
    for number, job in enumerate(found):
        notes |= {rank.pid: f"rank {rank.rank} of job {number}" for rank in job.ranks}
    return notes


def _view(job: Job, snapshot: Snapshot, notes: Mapping[int, str], spy: str | None) -> JobView:
    placement = place([snapshot], job.ranks, notes)
    # Without memory on any GPU it may be a job for the CPU: how many GPUs it sees says nothing.
    uses_gpus = any(rank.devices for rank in placement.ranks)
    return JobView(
        job=job,
        placement=placement,
        findings=tuple(misplacements(placement)) if uses_gpus else (),
        stacks=stacks(placement.ranks, spy) if spy else (),
    )


def _job_dict(view: JobView) -> dict[str, Any]:
    job = view.job
    return {
        "launcher": job.launcher
        and {"pid": job.launcher.pid, "command": shlex.join(job.launcher.command)},
        "command": shlex.join(job.command),
        "world_size": job.world_size,
        "pid_mismatch": view.placement.pid_mismatch,
        "stacks": [asdict(group) for group in view.stacks],
    }
