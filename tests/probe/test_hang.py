"""A run that gets nowhere is stopped, and the rank that holds the others up stands out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ddpdoctor.findings import Finding
from ddpdoctor.probe.results import ProbeRun

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "hangs"
_TIMEOUT = 10.0  # a machine under load takes seconds to import torch

Probe = Callable[..., ProbeRun]


def _row(script: Path, text: str) -> int:
    """The number of the one line of the script that holds the text."""
    rows = [row for row, line in enumerate(script.read_text().splitlines(), 1) if text in line]
    assert len(rows) == 1
    return rows[0]


def _finding(run: ProbeRun) -> Finding:
    (finding,) = (one for one in run.findings if one.code == "DDP504")
    return finding


def test_the_rank_that_never_enters_the_collective_is_the_odd_one(
    probed: Probe, left_behind: Callable[[str], list[str]]
) -> None:
    script = _FIXTURES / "skipped_collective.py"
    run = probed(script, nproc=3, timeout=_TIMEOUT)
    assert run.outcome == "hung"
    odd, others = run.stacks
    assert (odd.ranks, odd.odd, odd.waiting) == ((1,), True, None)
    assert odd.place is not None
    assert (odd.place.row, odd.place.source) == (_row(script, "time.sleep"), "time.sleep(0.1)")
    assert (others.ranks, others.odd) == ((0, 2), False)
    assert others.waiting is not None
    assert (others.waiting.operation, others.waiting.sequence) == ("all_reduce", 4)
    assert others.frames[-1] == f"{script}:{_row(script, '    main()')} in <module>"
    assert not any("ddpdoctor" in frame and "agent" in frame for frame in others.frames)
    finding = _finding(run)
    assert finding.filename == str(script)
    assert finding.location is not None
    assert finding.location.row == _row(script, "time.sleep")
    assert finding.ranks == (1,)
    assert "ranks 0, 2 wait in all_reduce (number 4 of the default group)" in finding.message
    assert left_behind(run.run_folder) == []


def test_ranks_that_wait_in_different_groups_are_told_apart(probed: Probe) -> None:
    run = probed(_FIXTURES / "swapped_groups.py", timeout=_TIMEOUT)
    groups = {one.ranks: one.waiting.group for one in run.stacks if one.waiting}
    assert groups.keys() == {(0,), (1,)}
    assert groups[(0,)] != groups[(1,)]
    assert all(one.waiting and one.waiting.ranks == (0, 1) for one in run.stacks)
    assert not any(one.odd for one in run.stacks)
    assert "same order" in _finding(run).repair


def test_a_mismatch_in_collective_order_names_both_collectives(probed: Probe) -> None:
    run = probed(_FIXTURES / "swapped_collectives.py", nproc=3, timeout=_TIMEOUT)
    waits = {one.ranks: one.waiting.operation for one in run.stacks if one.waiting}
    assert waits == {(0,): "broadcast", (1, 2): "all_gather"}
    assert [one.ranks for one in run.stacks if one.odd] == [(0,)]
    assert "same order" in _finding(run).repair


def test_ranks_that_wait_for_one_that_has_ended_are_explained(probed: Probe) -> None:
    script = _FIXTURES / "ended_early.py"
    run = probed(script)
    finding = _finding(run)
    assert finding.ranks == (1,)
    assert "Rank 0 waited in all_reduce (number 4 of the default group) for rank 1" in (
        finding.message
    )
    assert finding.location is not None
    assert finding.location.row == _row(script, "dist.all_reduce")


def test_a_program_that_never_gets_to_torch_is_stopped_as_well(
    probed: Probe, tmp_path: Path
) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time\ntime.sleep(600)\n")
    run = probed(script, timeout=_TIMEOUT)
    assert run.outcome == "hung"
    assert {one.problem for one in run.stacks} == {"it never imported torch, or never started"}
