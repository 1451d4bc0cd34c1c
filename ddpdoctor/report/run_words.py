"""One run in words: its ending, how far its ranks came, and what failed, for every report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from ddpdoctor.probe.results import Failure, ProbeRun, TensorSeen, Waiting
from ddpdoctor.report.words import count, duration, ranks

_ENDINGS = {
    "completed": "completed in {time}",
    "failed": "failed after {time}",
    "hung": "hung: no rank went on; stopped after {time}",
    "stopped": "stopped by you after {time}",
    "crashed": "the launcher itself died after {time}",
}


def ending(run: ProbeRun) -> str:
    """ "completed in 41 s", "failed after 3.1 s"."""
    return _ENDINGS[run.outcome].format(time=duration(run.seconds))


def command(run: ProbeRun) -> str:
    return shlex.join(run.command)


def who_ran_where(run: ProbeRun) -> str:
    """ "4 ranks on 8 virtual GPUs", "4 ranks, no GPU watched"."""
    told = count(run.world_size, "rank")
    if run.source == "none":
        return f"{told}, no GPU watched"
    kind = "virtual GPU" if run.source == "virtual" else "GPU"
    return f"{told} on {count(len(run.placement.gpus), kind)}"


def progress(run: ProbeRun) -> list[str]:
    """A line an outcome: "ranks 0-3 completed: 60 steps, 11.8 steps/s, last loss 0.2310"."""
    lines = []
    for outcome in dict.fromkeys(one.outcome for one in run.progress):
        alike = [one for one in run.progress if one.outcome == outcome]
        loss = _span(_known(one.loss for one in alike), "{:.4f}")
        rate = _span(_known(one.steps_per_second for one in alike), "{:.1f}")
        parts = [
            f"{_span([one.steps for one in alike], '{:.0f}')} steps",
            f"{rate} steps/s" if rate else "",
            f"last loss {loss}" if loss else "",
        ]
        who = ranks(one.rank for one in alike)
        lines.append(f"{who} {outcome}: {', '.join(part for part in parts if part)}")
    return lines


def steps(run: ProbeRun) -> str:
    """Steps of its ranks: "60", "58 to 60", "" where no rank told."""
    return _span([one.steps for one in run.progress], "{:.0f}")


def step_rate(run: ProbeRun) -> str:
    """Steps a second of its ranks, "" where none was measured."""
    return _span(_known(one.steps_per_second for one in run.progress), "{:.1f}")


def last_loss(run: ProbeRun) -> str:
    """The last loss of its ranks, "" where none was seen."""
    return _span(_known(one.loss for one in run.progress), "{:.4f}")


def failure(failed: Failure) -> str:
    """ "rank 2 failed first, after 3.1 s: RuntimeError: …"."""
    who = ranks([failed.rank]) if failed.rank is not None else f"process {failed.pid}"
    when = "" if failed.at is None else f", after {duration(failed.at)}"
    kind = {"signal": "", "exit": ""}.get(failed.kind, f"{failed.kind}: ")
    return f"{who} failed first{when}: {kind}{failed.text}"


def waiting(what: Waiting) -> str:
    """ "in all_reduce number 12 of the default group"."""
    members = f" ({ranks(what.ranks)})" if what.ranks else ""
    return f"in {what.operation} number {what.sequence} of {what.group}{members}"


def tensor(seen: TensorSeen) -> str:
    """ "float32 (64, 10)"."""
    return f"{seen.dtype.removeprefix('torch.')} {tuple(seen.shape)}"


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _span(values: Sequence[float], form: str) -> str:
    """One value, or the least and the greatest where they differ as written."""
    if not values:
        return ""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
