"""A line that shows that a run goes on: on a terminal, and only once it takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from ddpdoctor.probe.watch import Glance

_QUIET_SECONDS = 2.0
_IDLE_SECONDS = 5.0


@contextmanager
def progress_display(title: str, console: Console) -> Iterator[Callable[[Glance], None]]:
    """Gives the function to call with each glance; what it showed is gone at the end."""
    status = Status(title, console=console)

    def show(glance: Glance) -> None:
        if not console.is_terminal or glance.seconds < _QUIET_SECONDS:
            return
        status.update(_text(title, glance))
        status.start()

    try:
        yield show
    finally:
        status.stop()


def _text(title: str, glance: Glance) -> str:
    parts = [
        f"{title}: {glance.seconds:.0f} s",
        f"{glance.processes} processes",
        f"{glance.steps} steps",
        f"{glance.collectives} collectives",
    ]
    if glance.idle_seconds > _IDLE_SECONDS:
        parts.append(f"no progress for {glance.idle_seconds:.0f} s")
    return ", ".join(parts)
