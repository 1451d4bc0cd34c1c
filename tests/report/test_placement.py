"""The rank x GPU table as text."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.probe.results import ProbeRun
from ddpdoctor.report import Screen
from ddpdoctor.report.placement import placement_lines


def test_unknown_memory_and_an_unknown_own_gpu_are_not_called_wrong(misplaced: ProbeRun) -> None:
    placement = misplaced.placement
    ranks = tuple(replace(rank, own=None) for rank in placement.ranks)
    first, *others = placement.gpus
    blind = tuple(replace(process, peak_bytes=None) for process in first.processes)
    gpus = (replace(first, processes=blind), *others)
    lines = placement_lines(replace(placement, ranks=ranks, gpus=gpus), Screen())
    assert lines[2].split() == ["rank", "1", "unknown", ".", ".", "."]
    assert not [line for line in lines if "!" in line or line.startswith("o the rank's own")]


def test_memory_of_several_processes_of_a_rank_is_added(corrected: ProbeRun) -> None:
    first, *others = corrected.placement.gpus
    worker = replace(first.processes[0], pid=555)
    gpus = (replace(first, processes=(*first.processes, worker)), *others)
    lines = placement_lines(replace(corrected.placement, gpus=gpus), Screen())
    assert lines[1].split()[:4] == ["rank", "0", "1.00", "GiB"]
    assert lines[-2].split() == ["processes", "2", "1", "1", "2"]


def test_a_gpu_that_cannot_be_read_is_not_called_idle(corrected: ProbeRun) -> None:
    first, *others = corrected.placement.gpus
    gpus = (replace(first, processes=(), problem="GPU is lost"), *others)
    placement = replace(corrected.placement, gpus=gpus, problems=("GPU 0: GPU is lost",))
    wide = placement_lines(placement, Screen())
    assert "memory     unknown" in "\n".join(wide)
    assert wide[-1] == "note: GPU 0: GPU is lost"
    narrow = placement_lines(placement, Screen(columns=40))
    assert narrow[0] == "GPU 0: unknown"


def test_no_gpu_is_no_table(corrected: ProbeRun) -> None:
    placement = replace(corrected.placement, gpus=(), problems=("no driver",))
    assert placement_lines(placement, Screen()) == ["note: no driver"]
