"""The rank x GPU table as HTML."""

from __future__ import annotations

from ddpdoctor.gpus.placement import GpuRow, Placement, RankRow
from ddpdoctor.report.markup import Markup, element
from ddpdoctor.report.placement import Standing, cell, held
from ddpdoctor.report.words import memory

_ROOMY = 4  # GPUs; more need smaller cells for two tables to stand side by side
_WORDS = {
    Standing.AT_HOME: "on its own GPU",
    Standing.ASTRAY: "! on a GPU that is not its own",
    Standing.MISSED: "its own GPU, not used",
    Standing.HERE: "whose own GPU is not known, or no rank",
}

LEGEND = element(
    "p",
    *(
        element("span", element("span", class_=f"swatch {one.name.lower()}"), words)
        for one, words in _WORDS.items()
    ),
    class_="legend soft",
)


def matrix(placement: Placement) -> Markup:
    """A row a rank, a column a GPU; below them the processes and the memory of each GPU."""
    gpus = placement.gpus
    head = element(
        "tr", element("th"), *(element("th", f"GPU {gpu.index}", title=gpu.name) for gpu in gpus)
    )
    rows = [
        element("tr", element("th", f"rank {rank.rank}"), *(_cell(rank, gpu) for gpu in gpus))
        for rank in placement.ranks
    ]
    others = [sum(process.rank is None for process in gpu.processes) for gpu in gpus]
    if any(others):
        rows.append(_sum("others", [str(number or "") for number in others]))
    rows.append(_sum("processes", [str(len(gpu.processes)) for gpu in gpus]))
    rows.append(_sum("memory", [held(gpu) for gpu in gpus]))
    kind = "matrix dense" if len(gpus) > _ROOMY else "matrix"
    return element("div", element("table", head, *rows, class_=kind), class_="wide")


def _cell(rank: RankRow, gpu: GpuRow) -> Markup:
    one = cell(rank, gpu)
    words = {Standing.AWAY: "·", Standing.MISSED: "not used"}.get(one.standing, memory(one.size))
    mark = "! " if one.standing is Standing.ASTRAY else ""
    return element("td", mark + words, class_=one.standing.name.lower())


def _sum(name: str, texts: list[str]) -> Markup:
    return element(
        "tr", element("th", name), *(element("td", text) for text in texts), class_="sum"
    )
