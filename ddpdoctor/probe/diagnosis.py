"""From the evidence of a run to what it means: one ProbeRun, made here and only read after."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ddpdoctor.gpus import Gpu
from ddpdoctor.gpus.pids import neighbours
from ddpdoctor.gpus.placement import Placement, place
from ddpdoctor.probe.causes import findings_of
from ddpdoctor.probe.explain import Explained
from ddpdoctor.probe.failures import RankEnd, bad_ends, first_failure, other_ends, texts_of
from ddpdoctor.probe.hang import hang_finding, last_collectives, left_alone, stack_groups
from ddpdoctor.probe.launch import Job
from ddpdoctor.probe.logs import tail
from ddpdoctor.probe.ranks import Rank, main_processes, rank_processes
from ddpdoctor.probe.records import Record
from ddpdoctor.probe.results import (
    Failure,
    Mismatch,
    Opening,
    Place,
    ProbeRun,
    RankProgress,
    TensorSeen,
)
from ddpdoctor.probe.watch import Evidence
from ddpdoctor.virtual import ledger

_OUTPUT_LINES = 12


def diagnose(
    job: Job, folder: Path, source: str, evidence: Evidence, explained: Explained
) -> ProbeRun:
    """explained: lint's findings in the program, for those that the run has shown."""
    ranks = main_processes(evidence.records, alone=job.launcher == "none")
    gpus = evidence.samples[-1].gpus
    placement = _placement(evidence, ranks, gpus)
    openings = _openings(job, folder, evidence, placement, ranks)
    mismatches = _mismatches(evidence.records, ranks)
    ends = bad_ends(job, folder, evidence, ranks)
    all_ends = (*ends.values(), *other_ends(job, evidence, ranks))
    failure = first_failure(job, folder, evidence, all_ends)
    expected = _expected(job, ranks)
    stacks = stack_groups(evidence, ranks, expected) if evidence.outcome == "hung" else ()
    findings = findings_of(placement, openings, mismatches, texts_of(evidence), all_ends, explained)
    if alone := left_alone(evidence, ranks, ends):
        findings.append(alone)
    if evidence.outcome == "hung":
        last = last_collectives(evidence.progress, ranks)
        findings.append(hang_finding(stacks, evidence.idle, last, explained))
    return ProbeRun(
        command=job.command,
        source=source,
        started=evidence.started,
        outcome=_outcome(job, evidence, failure),
        exit_code=evidence.returncode,
        seconds=evidence.ended - evidence.started,
        world_size=_world_size(evidence, expected),
        run_folder=str(folder),
        placement=placement,
        progress=_progress(evidence, ranks, ends),
        openings=openings,
        mismatches=mismatches,
        stacks=stacks,
        failure=failure,
        findings=tuple(findings),
        output=_output(job, folder),
        notes=_notes(job, evidence, ranks, expected),
        idle=evidence.idle,
    )


def _placement(evidence: Evidence, ranks: Mapping[int, Rank], gpus: Sequence[Gpu]) -> Placement:
    processes = rank_processes(evidence.records, ranks, gpus)
    known = {pid for process in processes for pid in (process.pid, *process.nspids)}
    seen = {
        process.pid for one in evidence.samples for gpu in one.gpus for process in gpu.processes
    }
    others = neighbours(seen - known)
    for record in evidence.records:
        if record.kind == "process" and record.pid not in known:
            others[record.pid] = "a process of the program that is no rank"
    return place(evidence.samples, processes, others)


def _openings(
    job: Job,
    folder: Path,
    evidence: Evidence,
    placement: Placement,
    ranks: Mapping[int, Rank],
) -> tuple[Opening, ...]:
    """Every context that was opened, in the order it happened."""
    rows = {row.rank: row for row in placement.ranks}
    owner = {process.pid: process.rank for gpu in placement.gpus for process in gpu.processes} | {
        rank.pid: number for number, rank in ranks.items()
    }

    def opening(pid: int, device: int, at: float, where: Place | None) -> Opening:
        rank = owner.get(pid)
        own = rows[rank].own if rank in rows else None
        wrong = own is not None and own != device
        return Opening(rank, pid, device, at - evidence.started, where, wrong)

    found = []
    if job.virtual:
        for held in ledger.read(folder / "ledger"):
            where = _place_of(held.opened_by)
            found.append(opening(held.pid, held.device_index, held.opened_at, where))
    else:
        index = {gpu.uuid.partition("-")[2]: gpu.index for gpu in placement.gpus}
        visible = {r.pid: r.facts["visible"] for r in evidence.records if r.kind == "cuda"}
        for record in evidence.records:
            if record.kind == "context":
                uuid = visible[record.pid][record.facts["device"]]
                if uuid in index:
                    where = _place(record.facts["place"])
                    found.append(opening(record.pid, index[uuid], record.at, where))
    return tuple(sorted(found, key=lambda one: one.at))


def _mismatches(records: Sequence[Record], ranks: Mapping[int, Rank]) -> tuple[Mismatch, ...]:
    number = {rank.pid: rank.rank for rank in ranks.values()}
    return tuple(
        Mismatch(
            rank=number.get(record.pid),
            operation=record.facts["operation"],
            tensors=tuple(_tensor(facts) for facts in record.facts["tensors"]),
            module=record.facts["module"],
            place=_place(record.facts["place"]),
            message=record.facts["message"],
            silent=record.facts["silent"],
        )
        for record in records
        if record.kind == "mismatch"
    )


def _tensor(facts: dict[str, Any]) -> TensorSeen:
    made = _place(facts["made"])
    return TensorSeen(**{**facts, "shape": tuple(facts["shape"]), "made": made})


def _place(facts: dict[str, Any] | None) -> Place | None:
    return Place(**facts) if facts else None


def _place_of(line: str | None) -> Place | None:
    """Of the ledger's "file:line"."""
    if line is None:
        return None
    filename, _, row = line.rpartition(":")
    return Place(filename, int(row), linecache.getline(filename, int(row)).strip())


def _expected(job: Job, ranks: Mapping[int, Rank]) -> tuple[int, ...]:
    """The ranks that should be on this node."""
    if job.launcher == "torchrun" and job.nnodes == 1:
        return tuple(range(job.nproc))
    return tuple(ranks)


def _world_size(evidence: Evidence, expected: Sequence[int]) -> int:
    told: list[int] = [r.facts["world_size"] for r in evidence.records if r.kind == "group"]
    return max((*told, len(expected)))


def _outcome(job: Job, evidence: Evidence, failure: Failure | None) -> str:
    if evidence.outcome != "ended":
        return evidence.outcome
    if evidence.returncode == 0:
        # A parent that starts its ranks itself need not look at how they ended.
        return "failed" if failure else "completed"
    by_signal = evidence.returncode is None or evidence.returncode < 0
    return "crashed" if by_signal and job.launcher == "torchrun" else "failed"


def _progress(
    evidence: Evidence, ranks: Mapping[int, Rank], ends: Mapping[int, RankEnd]
) -> tuple[RankProgress, ...]:
    losses = {r.pid: r.facts["loss"] for r in evidence.records if r.kind == "ended"}
    # A rank that multiprocessing forked ends without running atexit, so it tells nothing.
    all_well = evidence.outcome == "ended" and evidence.returncode == 0
    rows = []
    for number, rank in ranks.items():
        one = evidence.progress.get(rank.pid)
        if number in ends:
            outcome = "stopped" if ends[number].consequence else "failed"
        else:
            outcome = "completed" if all_well or rank.pid in losses else "stopped"
        rows.append(
            RankProgress(
                rank=number,
                steps=one.steps if one else 0,
                collectives=one.collectives if one else 0,
                steps_per_second=one.steps_per_second if one else None,
                loss=losses.get(rank.pid),
                outcome=outcome,
            )
        )
    return tuple(rows)


def _output(job: Job, folder: Path) -> tuple[str, ...]:
    """The last lines that the first rank printed; what it overwrote itself is left out."""
    name = f"{job.rank_log(0)}.out" if job.launcher == "torchrun" else "launcher.out"
    lines = [line.rstrip().rpartition("\r")[2] for line in tail(folder, name).splitlines()]
    return tuple([line for line in lines if line.strip()][-_OUTPUT_LINES:])


def _notes(
    job: Job, evidence: Evidence, ranks: Mapping[int, Rank], expected: Sequence[int]
) -> tuple[str, ...]:
    notes = []
    if job.virtual:
        notes.append(
            "the GPUs are virtual: CPU tensors with a device label; placement and device errors "
            "are as on real ones, speed and memory are not"
        )
    missing = [number for number in expected if number not in ranks]
    if missing and not ranks:
        notes.append("no process of the program imported torch, so none reported its rank")
    if evidence.left is None:
        notes.append(
            "the process that guards the program was killed; what the program started without its "
            "own environment may still run"
        )
    elif evidence.left and evidence.outcome == "ended":
        who = "process" if evidence.left == 1 else "processes"
        notes.append(
            f"{evidence.left} {who} that the program left running after its end had to be stopped"
        )
    if evidence.log_problem:
        notes.append(evidence.log_problem)
    return tuple(notes)
