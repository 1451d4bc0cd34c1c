"""DDP210: the parent uses CUDA before it starts the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.paths import compatible
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace


def check(trace: Trace) -> Iterator[Draft]:
    spawns = list(trace.of("spawn"))
    for event in trace.of("place", "create", "context"):
        if not event.process.launches_on(event.path) or event.detail.get("only_started"):
            continue
        later = next((spawn for spawn in spawns if _follows(trace, spawn, event)), None)
        if later is None:
            continue
        yield Draft(
            "DDP210",
            event.place,
            "the parent process uses CUDA before it starts the ranks",
            behaviour="the parent holds a context on its GPU for the whole run, and forked "
            "children cannot use CUDA at all",
            symptom='"Cannot re-initialize CUDA in forked subprocess", or one process more than '
            "ranks on GPU 0",
            repair="keep the parent on the CPU; do this in the function that each rank runs",
            related=((later.place, "the ranks are started here"),),
        )


def _follows(trace: Trace, spawn: Event, event: Event) -> bool:
    return (
        spawn.process is event.process
        and compatible(spawn.path, event.path)
        and not _is_rank(trace, spawn)
        and trace.events.index(spawn) > trace.events.index(event)
    )


def _is_rank(trace: Trace, spawn: Event) -> bool:
    """Whether the process that starts the others is a rank of the job as well."""
    return any(
        group.process is spawn.process and compatible(group.path, spawn.path)
        for group in trace.of("group")
    )
