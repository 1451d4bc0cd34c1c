"""One run in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.probe.results import Failure, ProbeReport, ProbeRun, Waiting
from ddpdoctor.report import Screen, run_words
from ddpdoctor.report.probe_text import probe_text


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            Failure(2, 7, 3.14, "RuntimeError", "no", "", 1),
            "rank 2 failed first, after 3.1 s: RuntimeError: no",
        ),
        (
            Failure(0, 7, None, "signal", "killed by SIGKILL", "", -9),
            "rank 0 failed first: killed by SIGKILL",
        ),
        (
            Failure(None, 7, None, "exit", "exit code 3", "", 3),
            "process 7 failed first: exit code 3",
        ),
    ],
)
def test_failure(failure: Failure, words: str) -> None:
    assert run_words.failure(failure) == words


def test_progress_is_told_by_outcome(corrected: ProbeRun) -> None:
    first, second, *_ = corrected.progress
    run = replace(
        corrected,
        progress=(
            replace(first, rank=0, steps=5, loss=None, outcome="failed"),
            replace(second, rank=1, steps=7, loss=0.5, outcome="stopped"),
            replace(second, rank=2, steps=9, loss=0.25, outcome="stopped"),
        ),
    )
    assert run_words.progress(run) == [
        "rank 0 failed: 5 steps, 11.8 steps/s",
        "ranks 1-2 stopped: 7 to 9 steps, 11.8 steps/s, last loss 0.2500 to 0.5000",
    ]


def test_waiting_names_the_group_only_where_it_is_known() -> None:
    assert run_words.waiting(Waiting("all_reduce", 3, "group 1", (0, 2))) == (
        "in all_reduce number 3 of group 1 (ranks 0, 2)"
    )
    assert run_words.waiting(Waiting("barrier", 1, "group 0")) == "in barrier number 1 of group 0"


def test_a_silent_mismatch_of_an_unknown_rank_is_told(misplaced: ProbeRun) -> None:
    silent = replace(
        misplaced.mismatches[0], rank=None, silent=True, place=None, message="DDP moved an input."
    )
    text = probe_text(ProbeReport((("", replace(misplaced, mismatches=(silent,))),)), Screen())
    assert "First mismatch of an unknown rank: aten.addmm in module layer\n" in text
    assert "PyTorch raised nothing: DDP moved an input." in text
