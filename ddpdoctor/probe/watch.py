"""Watches a running job: who is on which GPU, who ended, and whether it still gets anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.gpus import GpuSource, Snapshot
from ddpdoctor.probe.guardian import descendants
from ddpdoctor.probe.launch import Launch
from ddpdoctor.probe.progress import Progress, read_progress
from ddpdoctor.probe.records import Record, read_records
from ddpdoctor.probe.stacks import Frame, ask_stacks

_LOOK_SECONDS = 0.1
_SAMPLE_SECONDS = 0.5
_START_SECONDS = 60.0
_BUSY_TICKS = 10  # of a hundred a second
_MOST_SAMPLES = 4000  # then every second one is dropped and the interval doubled


@dataclass(frozen=True)
class Death:
    """A process of the job that ended; status: exit code, -N for signal N, None if not seen."""

    at: float
    status: int | None


@dataclass(frozen=True)
class Evidence:
    """All that was seen of one run, before any of it is interpreted.

    outcome: "ended" (the launcher, process pid, did so with returncode), "hung" or "stopped".
    stacks: by pid, and only of a hung run; alive: the pids that ran when it was found to hang.
    left: processes that outlived the launcher and were ended, None where some could not be. Times
    are since the epoch; idle: seconds that nothing had moved when it was found to hang.
    """

    outcome: str
    pid: int | None
    returncode: int | None
    started: float
    ended: float
    idle: float
    samples: tuple[Snapshot, ...]
    records: tuple[Record, ...]
    progress: Mapping[int, Progress]
    deaths: Mapping[int, Death]
    stacks: Mapping[int, tuple[Frame, ...]]
    alive: frozenset[int]
    left: int | None
    log_problem: str | None


@dataclass
class Interrupts:
    """What the user asked for meanwhile: 1 to stop, 2 or more to stop at once."""

    count: int = 0


@dataclass(frozen=True)
class Glance:
    """For the progress display: what is known of a run that goes on."""

    seconds: float
    processes: int
    steps: int
    collectives: int
    idle_seconds: float


@dataclass
class _Seen:
    samples: list[Snapshot] = field(default_factory=list)
    records: tuple[Record, ...] = ()
    progress: dict[int, Progress] = field(default_factory=dict)
    deaths: dict[int, Death] = field(default_factory=dict)
    interval: float = _SAMPLE_SECONDS
    ticks: int = 0


def watch(
    launch: Launch,
    source: GpuSource,
    folder: Path,
    timeout: float,
    linger: float,
    interrupts: Interrupts,
    show: Callable[[Glance], None],
) -> Evidence:
    """Until the job ends, hangs for `timeout` seconds or is interrupted; then nothing runs.

    linger: seconds to leave a hung job be, so that other nodes see it hang, too, and do not see
    this one's ranks go.
    """
    started = time.time()
    seen = _Seen()
    begun = moved = time.monotonic()
    mark = None
    sampled = 0.0
    outcome = "ended"
    idle = 0.0
    stacks: dict[int, tuple[Frame, ...]] = {}
    alive: frozenset[int] = frozenset()
    while launch.poll():
        time.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        _notice_deaths(seen)
        if now - sampled >= seen.interval:
            sampled = now
            _sample(seen, source, folder)
            current = (seen.progress.copy(), len(seen.records), launch.logs.bytes_read)
            working = now - begun < _START_SECONDS and _starts(seen, launch)
            if current != mark or working:
                moved, mark = now, current
            show(_glance(seen, time.time() - started, now - moved))
        if interrupts.count:
            outcome = "stopped"
        elif now - moved > timeout:
            outcome = "hung"
            idle = now - moved
            alive = frozenset(descendants(launch.guardian))
            stacks = ask_stacks(folder, _main_threads(seen, alive))
            time.sleep(linger)
        if outcome != "ended":
            _sample(seen, source, folder)
            break
    ended = time.time()
    launch.end(hurry=lambda: interrupts.count > 1)
    _sample(seen, source, folder)
    launch.logs.close()
    return Evidence(
        outcome,
        launch.pid,
        launch.returncode,
        started,
        ended,
        idle,
        tuple(seen.samples),
        seen.records,
        seen.progress,
        seen.deaths,
        stacks,
        alive,
        launch.left,
        launch.logs.problem,
    )


def _sample(seen: _Seen, source: GpuSource, folder: Path) -> None:
    seen.samples.append(source.snapshot())
    if len(seen.samples) > _MOST_SAMPLES:
        del seen.samples[::2]
        seen.interval *= 2
    seen.records = tuple(read_records(folder))
    for pid in {record.pid for record in seen.records}:
        if progress := read_progress(folder, pid):
            seen.progress[pid] = progress


def _starts(seen: _Seen, launch: Launch) -> bool:
    """Whether processes are still busy importing torch, before the agent can tell of progress."""
    job = launch.job
    expected = 1 + job.nproc if job.launcher == "torchrun" else 1
    if len({record.pid for record in seen.records}) >= expected:
        return False
    ticks = sum(map(_cpu_ticks, descendants(launch.guardian)))
    busy = ticks - seen.ticks >= _BUSY_TICKS
    seen.ticks = ticks
    return busy


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])  # utime, stime, see proc(5)


def _notice_deaths(seen: _Seen) -> None:
    for pid in {record.pid for record in seen.records} - seen.deaths.keys():
        alive, status = _state(pid)
        if not alive:
            seen.deaths[pid] = Death(time.time(), status)


def _state(pid: int) -> tuple[bool, int | None]:
    """Whether the process runs; of one that its parent has not collected yet, how it ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False, None
    if fields[0] not in (b"Z", b"X"):
        return True, None
    return False, os.waitstatus_to_exitcode(int(fields[49]))  # exit_code, see proc(5)


def _main_threads(seen: _Seen, alive: frozenset[int]) -> dict[int, int]:
    return {
        record.pid: record.facts["main_thread"]
        for record in seen.records
        if record.kind == "process" and record.pid in alive
    }


def _glance(seen: _Seen, seconds: float, idle: float) -> Glance:
    return Glance(
        seconds,
        len(seen.progress),
        max((one.steps for one in seen.progress.values()), default=0),
        max((one.collectives for one in seen.progress.values()), default=0),
        idle,
    )
