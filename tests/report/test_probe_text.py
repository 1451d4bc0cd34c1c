"""The text of a probe report, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click
import pytest

from ddpdoctor.probe.results import Place, ProbeReport, ProbeRun
from ddpdoctor.report import Screen
from ddpdoctor.report.probe_text import probe_text


@pytest.mark.usefixtures("program")
def test_two_runs(comparison: ProbeReport, snapshot: Callable[[str, str], None]) -> None:
    snapshot("probe.txt", probe_text(comparison, Screen(columns=120)))


@pytest.mark.usefixtures("program")
def test_two_runs_on_a_narrow_terminal(
    comparison: ProbeReport, snapshot: Callable[[str, str], None]
) -> None:
    text = probe_text(comparison, Screen(columns=44))
    snapshot("probe-narrow.txt", text)


def test_one_run_has_no_before_and_after(corrected: ProbeRun) -> None:
    text = probe_text(ProbeReport((("", corrected),)), Screen())
    assert text.startswith("4 ranks on 4 virtual GPUs, completed in 20 s\n")
    assert "No misplacement found." in text
    assert "Before" not in text


def test_colours_change_nothing_but_colour(comparison: ProbeReport) -> None:
    colourful = probe_text(comparison, Screen(colour=True))
    assert "\x1b[" in colourful
    assert click.unstyle(colourful) == probe_text(comparison, Screen())


def test_nothing_that_a_program_names_reaches_the_terminal_raw(misplaced: ProbeRun) -> None:
    evil = "\x1b[2J\u202e\r\x07"
    place = Place(f"a{evil}.py", 3, f"x = 1  # {evil}")
    (first, *_), (stack, *_) = misplaced.mismatches, misplaced.stacks
    assert misplaced.failure
    tensors = tuple(
        replace(tensor, name=evil + tensor.name, dtype=evil, device=evil, made=place)
        for tensor in first.tensors
    )
    run = replace(
        misplaced,
        command=("python", evil),
        run_folder=f"/tmp/{evil}",
        notes=(f"note {evil}",),
        openings=tuple(replace(one, place=place) for one in misplaced.openings),
        mismatches=(
            replace(first, operation=evil, tensors=tensors, module=evil, place=place, message=evil),
        ),
        stacks=(replace(stack, frames=(evil,), place=place, problem=evil),),
        failure=replace(misplaced.failure, text=evil, traceback=evil, kind=evil),
    )
    text = probe_text(ProbeReport((("", run),)), Screen())
    assert not set(text) & set("\x1b\u202e\r\x07")
    assert "\\x1b[2J" in text
