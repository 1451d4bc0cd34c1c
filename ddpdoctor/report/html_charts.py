"""A run over time as inline SVG: which GPU each rank held memory on, and how much each GPU held.

Positions along the time axis are percentages, so that charts fill the page while text keeps its
size. Colours are classes of the page's style sheet: at home, astray, or not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.gpus.placement import GpuRow, Occupant, RankRow
from ddpdoctor.probe.results import Opening, ProbeRun
from ddpdoctor.report.markup import Markup, element
from ddpdoctor.report.placement import Standing, cell
from ddpdoctor.report.words import duration, memory

_BAND = 20  # height in pixels of one GPU's band


def timeline(run: ProbeRun) -> Markup:
    """A row a rank; in it a band a GPU, from when the rank held memory there until it left."""
    rows = [
        element("tr", element("th", f"rank {rank.rank}"), element("td", _bands(run, rank)))
        for rank in run.placement.ranks
    ]
    axis = element(
        "div",
        *(element("span", duration(run.seconds * part / 4)) for part in range(5)),
        class_="axis",
    )
    return element(
        "table", *rows, element("tr", element("th"), element("td", axis)), class_="timeline"
    )


def memory_chart(run: ProbeRun, gpu: GpuRow, scale: int) -> Markup:
    """The memory of a GPU over time, its processes stacked; scale: the bytes at the top."""
    moments = _moments(run, gpu)
    times = [_percent(run, moment) for moment in moments]
    areas = []
    below = [0] * len(moments)
    for process in gpu.processes:
        above = [low + size for low, size in zip(below, _held(process, moments), strict=True)]
        upper = _steps(times, [100 - 100 * size / scale for size in above])
        lower = _steps(times, [100 - 100 * size / scale for size in below])
        points = " L".join(f"{x:.2f} {y:.2f}" for x, y in [*upper, *reversed(lower)])
        standing = _standing(run, gpu, process)
        areas.append(element("path", d=f"M{points} Z", class_=standing.name.lower()))
        below = above
    return element(
        "svg",
        *areas,
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        class_="memory",
        role="img",
        aria_label=f"Memory of GPU {gpu.index} over time, at most {memory(peak(run, gpu))}",
    )


def peak(run: ProbeRun, gpu: GpuRow) -> int:
    """The most bytes that a GPU's processes held at one moment, as far as the driver told."""
    moments = _moments(run, gpu)
    held = [_held(process, moments) for process in gpu.processes]
    return max(map(sum, zip(*held, strict=True)), default=0)


def _bands(run: ProbeRun, rank: RankRow) -> Markup:
    gpus = [gpu for gpu in run.placement.gpus if gpu.index in rank.devices]
    height = _BAND * max(len(gpus), 1)
    parts: list[str] = []
    for number, gpu in enumerate(gpus):
        one = cell(rank, gpu)
        top = number * _BAND
        spans = [
            span
            for process in gpu.processes
            if process.rank == rank.rank
            for span in _spans(run, process)
        ]
        label = f"GPU {gpu.index}, not its own" if one.standing is Standing.ASTRAY else ""
        for start, end in spans:
            parts.append(
                element(
                    "rect",
                    element("title", f"rank {rank.rank} on GPU {gpu.index}: {memory(one.size)}"),
                    x=f"{start:.3f}%",
                    width=f"{max(end - start, 0.3):.3f}%",
                    y=top + 1,
                    height=_BAND - 2,
                    rx=3,
                    class_=one.standing.name.lower(),
                )
            )
        if spans:
            parts.append(
                element(
                    "text",
                    label or f"GPU {gpu.index}",
                    x=f"{min(start for start, _ in spans):.3f}%",
                    dx=6,
                    y=top + 14,
                )
            )
    for opening in run.openings:
        if opening.wrong and opening.rank == rank.rank:
            parts.append(_mark(run, opening, height))
    return element("svg", *parts, height=height, width="100%", role="img")


def _mark(run: ProbeRun, opening: Opening, height: int) -> Markup:
    """An upright line where a rank first used a GPU that is not its own."""
    at = f"{_percent(run, run.started + opening.at):.3f}%"
    told = f"rank {opening.rank} opened GPU {opening.device}"
    told += f" at {opening.place}" if opening.place else ""
    return element("line", element("title", told), x1=at, x2=at, y1=0, y2=height, class_="opening")


def _spans(run: ProbeRun, process: Occupant) -> Iterator[tuple[float, float]]:
    """Percentages of the run between which the process held memory, known or not."""
    began: float | None = None
    for time, size in process.curve:
        if size != 0 and began is None:
            began = _percent(run, time)
        elif size == 0 and began is not None:
            yield began, _percent(run, time)
            began = None
    if began is not None:
        yield began, 100.0


def _moments(run: ProbeRun, gpu: GpuRow) -> list[float]:
    """Each time at which memory on the GPU changed, and the end of the run."""
    changes = {time for process in gpu.processes for time, _ in process.curve}
    return [*sorted(changes), run.started + run.seconds]


def _held(process: Occupant, moments: Sequence[float]) -> list[int]:
    """Its bytes at each moment: those of the last change until then; 0 where not known."""
    held = []
    at = 0
    for moment in moments:
        while at < len(process.curve) and process.curve[at][0] <= moment:
            at += 1
        held.append(process.curve[at - 1][1] or 0 if at else 0)
    return held


def _steps(times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    points = []
    for number, (time, value) in enumerate(zip(times, values, strict=True)):
        if number:
            points.append((time, values[number - 1]))
        points.append((time, value))
    return points


def _standing(run: ProbeRun, gpu: GpuRow, process: Occupant) -> Standing:
    rank = next((rank for rank in run.placement.ranks if rank.rank == process.rank), None)
    return cell(rank, gpu).standing if rank else Standing.HERE


def _percent(run: ProbeRun, time: float) -> float:
    """Where a time since the epoch lies within the run."""
    return min(max(100 * (time - run.started) / max(run.seconds, 0.001), 0.0), 100.0)
