"""What a probe saw, whole: made once by the diagnosis, then only read, by reports and as JSON.

Schema 1. "at" is in seconds since the run began, memory in bytes, a device index is the GPU's
index on this machine (GpuRow.index) unless it says otherwise. None means not known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from ddpdoctor.findings import Finding
from ddpdoctor.gpus.placement import Placement

SCHEMA = 1


@dataclass(frozen=True)
class Place:
    """A line of the user's program; source is its text, stripped ("" where it cannot be read)."""

    filename: str
    row: int
    source: str = ""

    def __str__(self) -> str:
        return f"{self.filename}:{self.row}"


@dataclass(frozen=True)
class Opening:
    """A rank's first use of a GPU. wrong: that GPU is not the rank's own."""

    rank: int | None
    pid: int
    device: int
    at: float
    place: Place | None
    wrong: bool


@dataclass(frozen=True)
class TensorSeen:
    """A tensor of a failing or misplaced operation.

    name: as the program calls it ("layers.0.weight", "x"); kind: "parameter", "buffer",
    "variable" or "value" (a result that has no name); device: as PyTorch prints it; made: the
    line that made it, where the program's text tells.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    made: Place | None = None


@dataclass(frozen=True)
class Mismatch:
    """Tensors of one operation on different devices, the first one of a rank.

    module: path of the innermost module that ran ("" outside of modules). silent: PyTorch raised
    nothing (DDP moved an input, a buffer was left behind); then message says what happened.
    """

    rank: int | None
    operation: str
    tensors: tuple[TensorSeen, ...]
    module: str
    place: Place | None
    message: str
    silent: bool = False


@dataclass(frozen=True)
class Waiting:
    """What a rank was in when it stopped: a collective, its number in that group, the group.

    sequence counts from 1 and is per group; ranks: the group's global ranks, () when not known.
    """

    operation: str
    sequence: int
    group: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class StackGroup:
    """Ranks that stood in the same Python stack; the group with the fewest ranks is the odd one.

    frames: "file:line in function", innermost first; () where no stack could be had, and then
    problem says why. place: the innermost line of the user's own program.
    """

    ranks: tuple[int, ...]
    waiting: Waiting | None
    frames: tuple[str, ...]
    place: Place | None
    odd: bool
    problem: str = ""


@dataclass(frozen=True)
class Failure:
    """The first rank that ended badly.

    kind: the exception's type, "signal" or "exit"; text: its message, in one line; traceback: its
    own, once, as Python prints it ("" where it had none); code: exit code, -N for signal N.
    """

    rank: int | None
    pid: int | None
    at: float | None
    kind: str
    text: str
    traceback: str
    code: int | None


@dataclass(frozen=True)
class RankProgress:
    """How far a rank came. outcome: "completed", "failed", "stopped" (by the probe or by the
    launcher, after another failed) or "unknown"; loss: the last one that backward was called on.
    """

    rank: int
    steps: int
    collectives: int
    steps_per_second: float | None
    loss: float | None
    outcome: str


@dataclass(frozen=True)
class ProbeRun:
    """One run of a program.

    source: "virtual" or "nvml". started: seconds since the epoch, the
    zero of every "at" (the placement's memory curves count from the epoch). outcome: "completed",
    "failed", "hung", "stopped" (by the user) or "crashed" (the launcher itself died). output: the
    last lines that the first rank printed, without control characters. notes: sentences the
    reader must know (virtual GPUs were used, processes had to be stopped). idle: seconds without
    progress after which it was found to hang.
    """

    command: tuple[str, ...]
    source: str
    started: float
    outcome: str
    exit_code: int | None
    seconds: float
    world_size: int
    run_folder: str
    placement: Placement
    progress: tuple[RankProgress, ...]
    openings: tuple[Opening, ...]
    mismatches: tuple[Mismatch, ...]
    stacks: tuple[StackGroup, ...]
    failure: Failure | None
    findings: tuple[Finding, ...]
    output: tuple[str, ...]
    notes: tuple[str, ...]
    idle: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        own = {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)
            if field.name not in ("placement", "findings")
        }
        return {
            **self.placement.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            **own,
        }


@dataclass(frozen=True)
class ProbeReport:
    """What `ddpdoctor probe` shows: one run, or two side by side.

    runs: label and run, in the order they ran; the label is "" for a single run, else "misplaced"
    and "corrected". diff: what was changed between the two, as a unified diff, or None.
    """

    runs: tuple[tuple[str, ProbeRun], ...]
    diff: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the program as it was given: the first run."""
        return self.runs[0][1].findings

    def to_dict(self) -> dict[str, Any]:
        """One run's object; where two were made, the first one's, with both under "runs"."""
        report: dict[str, Any] = {"schema": SCHEMA, **self.runs[0][1].to_dict()}
        if len(self.runs) > 1:
            report["runs"] = {label: run.to_dict() for label, run in self.runs}
            report["diff"] = self.diff
        return report


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
