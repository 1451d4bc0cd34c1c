"""The rank x GPU table as text: what each rank holds on each GPU, and whether it belongs there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ddpdoctor.gpus.placement import GpuRow, Placement, RankRow
from ddpdoctor.report.terminal import Screen, wrapped
from ddpdoctor.report.words import count, memory, ranks


class Standing(Enum):
    """How a rank stands to a GPU."""

    AWAY = "away"
    AT_HOME = "at home"
    ASTRAY = "astray"  # holds memory on a GPU that is not its own
    MISSED = "missed"  # its own GPU, where it holds nothing
    HERE = "here"  # holds memory, and its own GPU is not known


@dataclass(frozen=True)
class Cell:
    """A rank on a GPU; size: the peaks of its processes in bytes, None where not known."""

    standing: Standing
    size: int | None


def cell(rank: RankRow, gpu: GpuRow) -> Cell:
    """What the table says where that rank and that GPU meet."""
    processes = [process for process in gpu.processes if process.rank == rank.rank]
    if not processes:
        return Cell(Standing.MISSED if rank.own == gpu.index else Standing.AWAY, 0)
    standing = Standing.HERE
    if rank.own is not None:
        standing = Standing.AT_HOME if rank.own == gpu.index else Standing.ASTRAY
    return Cell(standing, total(process.peak_bytes for process in processes))


def total(sizes: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def placement_lines(placement: Placement, screen: Screen) -> list[str]:
    """A row a rank and a column a GPU; on a screen too narrow for it a line a GPU."""
    lines = _matrix(placement, screen)
    if not lines:
        for gpu in placement.gpus:
            lines += wrapped(f"GPU {gpu.index}: ", gpu_words(gpu), screen.columns)
    for problem in placement.problems:
        lines += wrapped("note: ", problem, screen.columns)
    return lines


def held(gpu: GpuRow) -> str:
    """The memory of its processes together, or why there is none to show."""
    if gpu.processes:
        return memory(total(process.peak_bytes for process in gpu.processes))
    return "unknown" if gpu.problem else "idle"


def gpu_words(gpu: GpuRow) -> str:
    """Who is on a GPU: "8 processes, 4.00 GiB: ranks 0-7"."""
    if not gpu.processes:
        return held(gpu)
    who = [ranks(gpu.ranks)] if gpu.ranks else []
    who += [
        f"pid {process.pid} ({process.note})" if process.note else f"pid {process.pid}"
        for process in gpu.processes
        if process.rank is None
    ]
    return f"{count(len(gpu.processes), 'process', 'processes')}, {held(gpu)}: {', '.join(who)}"


def _matrix(placement: Placement, screen: Screen) -> list[str]:
    """Its lines; none where there is no GPU or no room."""
    gpus = placement.gpus
    cells = {rank.rank: [cell(rank, gpu) for gpu in gpus] for rank in placement.ranks}
    rows = [("", [f"GPU {gpu.index} " for gpu in gpus])]
    rows += [(f"rank {rank}", [_cell_text(one) for one in row]) for rank, row in cells.items()]
    if any(process.rank is None for gpu in gpus for process in gpu.processes):
        others = [sum(process.rank is None for process in gpu.processes) for gpu in gpus]
        rows.append(("others", [f"{number or '.'} " for number in others]))
    rows.append(("processes", [f"{len(gpu.processes)} " for gpu in gpus]))
    rows.append(("memory", [f"{held(gpu)} " for gpu in gpus]))

    label = max(len(name) for name, _ in rows)
    widths = [max(len(row[column]) for _, row in rows) for column in range(len(gpus))]
    if not gpus or label + sum(width + 2 for width in widths) > screen.columns:
        return []
    lines = [f"{name:<{label}}" for name, _ in rows]
    for at, (_, row) in enumerate(rows):
        for text, width in zip(row, widths, strict=True):
            colour = "red" if text.endswith("!") else "yellow" if text == "o " else None
            word = text.rstrip()
            blanks = text[len(word) :]
            lines[at] += " " * (2 + width - len(text))
            lines[at] += screen.style(word, colour, bold=bool(colour)) + blanks
    seen = {one.standing for row in cells.values() for one in row}
    if Standing.ASTRAY in seen:
        lines.append("! on a GPU that is not the rank's own")
    if Standing.MISSED in seen:
        lines.append("o the rank's own GPU, not used")
    return [line.rstrip() for line in lines]


def _cell_text(one: Cell) -> str:
    if one.standing is Standing.AWAY:
        return ". "
    if one.standing is Standing.MISSED:
        return "o "
    return memory(one.size) + ("!" if one.standing is Standing.ASTRAY else " ")
