"""Which rank failed first, and how: its own exception once, not what it caused elsewhere."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.probe.launch import Job
from ddpdoctor.probe.logs import tail
from ddpdoctor.probe.ranks import Rank
from ddpdoctor.probe.records import Record
from ddpdoctor.probe.results import Failure, Place
from ddpdoctor.probe.watch import Evidence

# What a rank raises because another one went away (gloo, TCPStore, NCCL).
_CONSEQUENCE = re.compile(
    r"closed by (?:remote )?peer|reset by peer|Broken pipe|Connection refused"
    r"|remote process exited|process has terminated|failed to recv|ncclRemoteError"
    r"|wait timeout after|TCPStore",
    re.IGNORECASE,
)
# torchrun's table of what failed (torch/distributed/elastic/multiprocessing/errors/__init__.py).
_TABLE = re.compile(r"rank\s*: (\d+) \(local_rank: (\d+)\)\s+exitcode\s*: (-?\d+) \(pid: (\d+)\)")
# What mp.spawn raises in the parent for a child that ended badly.
_OF_CHILDREN = ("ProcessRaisedException", "ProcessExitedException")
_TRACEBACK = "Traceback (most recent call last):"
_LAUNCHER_STOPS = (-signal.SIGTERM, -signal.SIGINT)
_MOST_LINES = 40


@dataclass(frozen=True)
class RankEnd:
    """How a rank's main process ended badly, or a process that is none (rank None).

    at: since the epoch, None where not seen. consequence: because another rank, the launcher or a
    child ended it.
    """

    rank: int | None
    local_rank: int
    pid: int
    at: float | None
    code: int | None
    exception: Record | None
    consequence: bool

    @property
    def place(self) -> Place | None:
        """The program's line that raised."""
        facts = self.exception.facts["place"] if self.exception else None
        return Place(**facts) if facts else None

    @property
    def said(self) -> str:
        """The exception in one line, "" where there was none."""
        if self.exception is None:
            return ""
        return f"{self.exception.facts['type']}: {_line(self.exception.facts['text'])}"


def bad_ends(
    job: Job, folder: Path, evidence: Evidence, ranks: Mapping[int, Rank]
) -> dict[int, RankEnd]:
    """By rank. What the probe itself stopped is none."""
    # Of a run that was stopped, torchrun's table would list every rank with our own SIGTERM.
    told = tail(folder, "launcher.err") if evidence.outcome == "ended" else ""
    table = {int(rank): tuple(map(int, rest)) for rank, *rest in _TABLE.findall(told)}
    exceptions = _exceptions(evidence)
    others = other_ends(job, evidence, ranks)
    ends = {}
    for number in sorted(ranks.keys() | table.keys()):
        local_rank, code, pid = table.get(number, (0, None, 0))
        if number in ranks:
            local_rank, pid = ranks[number].local_rank, ranks[number].pid
        death = evidence.deaths.get(pid)
        exception = exceptions.get(pid)
        if code is None and death:
            code = death.status
        if code is None and job.launcher == "none" and len(ranks) == 1 and not others:
            code = evidence.returncode
        if exception is None and not code:
            continue
        at = exception.at if exception else death.at if death else None
        consequence = _is_consequence(exception) if exception else code in _LAUNCHER_STOPS
        ends[number] = RankEnd(number, local_rank, pid, at, code, exception, consequence)
    return ends


def other_ends(job: Job, evidence: Evidence, ranks: Mapping[int, Rank]) -> tuple[RankEnd, ...]:
    """Processes that are no rank's main one (its helpers, or not yet a rank) and raised."""
    known = {rank.pid for rank in ranks.values()}
    if job.launcher == "torchrun":
        known.add(evidence.pid or 0)  # it raises for its ranks, and says of each how it ended
    return tuple(
        RankEnd(None, 0, pid, record.at, None, record, _is_consequence(record))
        for pid, record in _exceptions(evidence).items()
        if pid not in known
    )


def first_failure(
    job: Job, folder: Path, evidence: Evidence, ends: Sequence[RankEnd]
) -> Failure | None:
    """The end that came first and was no consequence of another; None where nothing failed.

    A rank is told rather than a process that is none: what a helper raised ends its rank, too.
    """
    if ends:
        first = min(
            ends, key=lambda end: (end.consequence, end.rank is None, end.at or float("inf"))
        )
        return _of_rank(job, folder, evidence, first)
    if evidence.outcome != "ended" or evidence.returncode == 0:
        return None
    return _of_launcher(folder, evidence)


def _exceptions(evidence: Evidence) -> dict[int, Record]:
    """By pid, what ended the process."""
    found: dict[int, Record] = {}
    for record in evidence.records:
        # What a rank raises after that, it raises because the others are being stopped.
        in_time = evidence.outcome == "ended" or record.at < evidence.ended
        if record.kind == "exception" and not record.facts["thread"] and in_time:
            found.setdefault(record.pid, record)
    return found


def _is_consequence(exception: Record) -> bool:
    facts = exception.facts
    return facts["type"] in _OF_CHILDREN or bool(_CONSEQUENCE.search(facts["text"]))


def _of_rank(job: Job, folder: Path, evidence: Evidence, end: RankEnd) -> Failure:
    at = None if end.at is None else end.at - evidence.started
    if end.exception:
        facts = end.exception.facts
        return Failure(
            end.rank, end.pid, at, facts["type"], _line(facts["text"]), facts["traceback"], end.code
        )
    log = job.rank_log(end.local_rank) if job.launcher == "torchrun" else "launcher"
    printed = _printed_traceback(tail(folder, f"{log}.err"))
    if end.code is not None and end.code < 0:
        crash = folder / f"process-{end.pid}.stacks"
        where = crash.read_text("utf-8", "replace") if crash.exists() else ""
        return Failure(end.rank, end.pid, at, "signal", _signal_text(end.code), where, end.code)
    return _exit(end.rank, end.pid, at, end.code, printed)


def _of_launcher(folder: Path, evidence: Evidence) -> Failure:
    """Nothing is known of a rank: the program never got as far as importing torch."""
    code = evidence.returncode
    if code is None or code < 0:
        text = "the launcher was killed" if code is None else _signal_text(code)
        return Failure(None, evidence.pid, None, "signal", text, "", code)
    return _exit(None, evidence.pid, None, code, _printed_traceback(tail(folder, "launcher.err")))


def _exit(
    rank: int | None, pid: int | None, at: float | None, code: int | None, printed: str
) -> Failure:
    last = printed.strip().rpartition("\n")[2]
    named = re.match(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\w*)(?:: (.*))?$", last)
    if named:
        return Failure(rank, pid, at, named[1], named[2] or "", printed, code)
    text = f"ended with exit code {code} and no exception" + (f"; it said: {last}" if last else "")
    return Failure(rank, pid, at, "exit", text, "", code)


def _signal_text(code: int) -> str:
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel does that, too, when memory runs out)" if name == "SIGKILL" else ""
    return f"killed by {name}{hint}"


def _printed_traceback(text: str) -> str:
    """The last traceback in a log, or its last lines where there is none (a syntax error)."""
    start = text.rfind(_TRACEBACK)
    lines = text[max(start, 0) :].splitlines()
    return "\n".join(lines[-_MOST_LINES:])


def _line(text: str) -> str:
    """The first line; of NCCL's, which begin with where in its source, what it says at the end."""
    if "Last error:" in text:
        text = text.partition("Last error:")[2]
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def texts_of(evidence: Evidence) -> Sequence[str]:
    """What every exception of the run said."""
    return [record.facts["text"] for record in evidence.records if record.kind == "exception"]
