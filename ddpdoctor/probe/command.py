"""What `ddpdoctor probe` does: one run of the user's program, or two where one is the repair."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.nvml import NvmlSource
from ddpdoctor.gpus.nvml_binding import NoGpu
from ddpdoctor.gpus.visible import visible_devices
from ddpdoctor.probe import nodes
from ddpdoctor.probe.corrected import repaired_copy
from ddpdoctor.probe.folder import new_run_folder
from ddpdoctor.probe.launch import Job
from ddpdoctor.probe.launcher import launcher_of
from ddpdoctor.probe.results import ProbeReport, ProbeRun
from ddpdoctor.probe.run import run, script_of
from ddpdoctor.resources import resource

_VIRTUAL_GPUS = 8
_MISPLACED, _CORRECTED = "misplaced", "corrected"


@dataclass(frozen=True)
class Request:
    """The command line of probe, as given. nproc and virtual: None where left out."""

    command: tuple[str, ...]
    nproc: int | None
    virtual: bool | None
    timeout: float
    launcher: str | None
    corrected: bool
    nnodes: int
    node_rank: int
    rendezvous: str | None


def probe(request: Request) -> ProbeReport:
    """Run what was asked for. Raises DdpdoctorError where that cannot be done."""
    _check(request)
    if request.nnodes == 1 and (step := nodes.slurm_nodes(os.environ)):
        nnodes, node_rank, rendezvous = step
        request = replace(request, nnodes=nnodes, node_rank=node_rank, rendezvous=rendezvous)
    job = _job(request)
    if request.nnodes > 1:
        return _on_nodes(job, request)
    if not request.command:
        return _reference(job, request.timeout)
    if request.corrected:
        return _before_and_after(job, request.timeout)
    return ProbeReport((("", run(job, new_run_folder(), request.timeout, "probing")),))


def exit_code(report: ProbeReport) -> int:
    """1 with findings, else 0. Raises DdpdoctorError where a program ended badly and nothing
    found explains it.
    """
    runs = [run for _, run in report.runs]
    if any(run.findings for run in runs):
        return 1
    if ended_badly := [run for run in runs if run.outcome != "completed"]:
        raise DdpdoctorError(_unexplained(ended_badly[0]))
    return 0


def _unexplained(run: ProbeRun) -> str:
    if run.outcome == "stopped":
        return "the program was stopped before its end, and nothing wrong was seen until then"
    failure = run.failure
    if failure is None:
        return "the program failed, and nothing in its placement explains it"
    who = f"rank {failure.rank}" if failure.rank is not None else f"process {failure.pid}"
    kind = "" if failure.kind in ("exit", "signal") else f"{failure.kind}: "
    return (
        f"the program failed on {who} ({kind}{failure.text}), and nothing in its placement "
        "explains it"
    )


def _reference(job: Job, timeout: float) -> ProbeReport:
    """The article's own training program, as first written and as repaired."""
    runs = []
    for label, stage in ((_MISPLACED, "1-first-written"), (_CORRECTED, "3-repaired")):
        folder = new_run_folder()
        # A copy, since an installed program counts as a library and may not be written to.
        program = folder / "program"
        shutil.copytree(
            resource("fixtures/article"), program, ignore=shutil.ignore_patterns("__pycache__")
        )
        command = ("main.py", "--checkpoint", str(folder / "digits.pt"))
        stage_job = replace(job, command=command, folder=program / stage)
        runs.append((label, run(stage_job, folder, timeout, f"reference job, {label}")))
        if runs[-1][1].outcome == "stopped":
            break
    return ProbeReport(tuple(runs))


def _before_and_after(job: Job, timeout: float) -> ProbeReport:
    """The program as it is, and with lint's repairs; a note where lint has none."""
    script = script_of(job)
    if script is None:
        raise DdpdoctorError("--corrected repairs Python programs; give the script itself")
    folder = new_run_folder()
    found = repaired_copy(job, script, folder / "program")
    first = run(job, new_run_folder(), timeout, "probing")
    if found is None:
        note = "lint has no repair for this program, so there is no corrected run"
        return ProbeReport((("", replace(first, notes=(*first.notes, note))),))
    repaired, diff = found
    if first.outcome == "stopped":
        return ProbeReport(((_MISPLACED, first),), diff)
    second = run(repaired, folder, timeout, "probing, corrected")
    return ProbeReport(((_MISPLACED, first), (_CORRECTED, second)), diff)


def _on_nodes(job: Job, request: Request) -> ProbeReport:
    """This node's run; on the first node with every other node's."""
    host, port = nodes.endpoint(job.rendezvous, job.nnodes, job.node_rank)
    if not job.command:
        raise DdpdoctorError("the reference job runs on one node; give a script with --nnodes")
    if job.launcher != "torchrun":
        raise DdpdoctorError("--nnodes goes with torchrun; this program starts its ranks itself")
    if job.node_rank > 0:
        mine = _node_run(job, request.timeout)
        nodes.send(host, port, job.node_rank, mine)
        note = f"the report of all {job.nnodes} nodes is on the first one, {host}"
        return ProbeReport(((f"node {job.node_rank}", replace(mine, notes=(*mine.notes, note))),))
    collector = nodes.Collector(host, port)
    try:
        mine = _node_run(job, request.timeout)
        others = collector.collect(job.nnodes)
    finally:
        collector.close()
    silent = sorted(set(range(1, job.nnodes)) - others.keys())
    if silent:
        note = f"no report came from node {', '.join(map(str, silent))}"
        mine = replace(mine, notes=(*mine.notes, note))
    first = nodes.of_all([mine, *others.values()])
    return ProbeReport((("node 0", first), *((f"node {n}", one) for n, one in others.items())))


def _node_run(job: Job, timeout: float) -> ProbeRun:
    """Raises DdpdoctorError where not all nodes came together, so that no rank was started."""
    mine = run(job, new_run_folder(), timeout, f"probing, node {job.node_rank}")
    if mine.outcome == "hung" and not mine.placement.ranks:
        raise DdpdoctorError(
            f"the {job.nnodes} nodes did not meet at {job.rendezvous} within {timeout:g} s; start "
            "the same command on every node, each with its own --node-rank (this is node "
            f"{job.node_rank}; its logs are in {mine.run_folder})"
        )
    return mine


def _check(request: Request) -> None:
    if request.nproc is not None and request.nproc < 1:
        raise DdpdoctorError(f"--nproc {request.nproc}: a job has at least one rank")
    if request.timeout <= 0:
        raise DdpdoctorError(f"--timeout {request.timeout:g}: give a number of seconds above 0")
    if request.corrected and (not request.command or request.nnodes > 1):
        raise DdpdoctorError("--corrected takes a script, and runs it on one node")
    if importlib.util.find_spec("torch") is None:
        raise DdpdoctorError(
            "probe runs programs with PyTorch, which is not installed beside ddpdoctor: "
            "pip install 'ddpdoctor[probe]'"
        )


def _job(request: Request) -> Job:
    seen = None if request.virtual else _gpus_seen(required=request.virtual is False)
    nproc = request.nproc or seen or _VIRTUAL_GPUS
    command = _found(request.command)
    return Job(
        command=command,
        nproc=nproc,
        virtual=0 if seen else nproc,
        launcher=request.launcher or launcher_of(command),
        nnodes=request.nnodes,
        node_rank=request.node_rank,
        rendezvous=request.rendezvous,
    )


def _gpus_seen(required: bool) -> int | None:
    """How many GPUs this environment shows, None without any; raises where they are required."""
    try:
        source = NvmlSource()
    except NoGpu as error:
        if required:
            raise DdpdoctorError(
                f"{error}; without --no-virtual it runs on virtual GPUs"
            ) from error
        return None
    try:
        seen = len(visible_devices(os.environ, source.snapshot().gpus).uuids)
    finally:
        source.close()
    if required and not seen:
        raise DdpdoctorError("CUDA_VISIBLE_DEVICES hides every GPU of this machine")
    return seen or None


def _found(command: Sequence[str]) -> tuple[str, ...]:
    """The command with its program checked: a file, or a program on PATH for the shell's words."""
    if not command:
        return ()
    script = Path(command[0])
    if script.is_dir():
        raise DdpdoctorError(f"{script} is a folder; give the script that starts the training")
    if script.suffix == ".py" or script.exists():
        if not os.access(script, os.R_OK):
            raise DdpdoctorError(
                f"{script} cannot be read" if script.exists() else f"{script} does not exist"
            )
        return (str(command[0]), *command[1:])
    program = shutil.which(command[0])
    if program is None:
        raise DdpdoctorError(f"{script} does not exist, and no program of that name is on PATH")
    return (program, *command[1:])
