"""Whoever waits at a terminal sees that the run goes on; a pipe gets nothing of it."""

from __future__ import annotations

import io

from rich.console import Console

from ddpdoctor.probe.display import progress_display
from ddpdoctor.probe.watch import Glance


def _shown(terminal: bool, *glances: Glance) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=200)
    with progress_display("probing", console) as show:
        for glance in glances:
            show(glance)
    return stream.getvalue()


def test_a_run_that_takes_a_while_shows_how_far_it_is() -> None:
    shown = _shown(True, Glance(3.0, 5, 120, 240, 0.2))
    assert "probing: 3 s, 5 processes, 120 steps, 240 collectives" in shown
    assert "no progress" not in shown


def test_standing_still_is_said_before_it_counts_as_a_hang() -> None:
    assert "no progress for 9 s" in _shown(True, Glance(30.0, 5, 120, 240, 9.0))


def test_the_first_seconds_show_nothing() -> None:
    assert "processes" not in _shown(True, Glance(1.0, 1, 0, 0, 0.0))


def test_a_pipe_gets_nothing() -> None:
    assert _shown(False, Glance(60.0, 5, 1, 1, 0.0)) == ""
