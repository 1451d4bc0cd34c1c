"""The code by which a repair says "this rank's own GPU" at a place of a file."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ddpdoctor.lint.assignments import function_around, holds_at, may_be_unset, root
from ddpdoctor.lint.imports import spelled
from ddpdoctor.lint.reach import View
from ddpdoctor.lint.repairs import path_to, statement_around
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Place, Unknown


@dataclass(frozen=True)
class Code:
    """An expression, and the modules that a file has to import for it."""

    text: str
    imports: tuple[str, ...] = ()

    def within(self, quote: str) -> str:
        """As it stands in an f-string with these quotes: until Python 3.12 it may not use them."""
        return self.text.replace('"', "'") if quote == '"' else self.text


def from_environment(place: Place, variable: str, default: str = "0") -> Code:
    """The local rank as the launcher sets it; a run of one process without it has the default."""
    environ, imports = library_name(place, "os.environ")
    return Code(f'int({environ}.get("{variable}", {default}))', imports)


def own_rank(trace: Trace, event: Event, place: Place, view: View | None) -> Code | None:
    """The local rank: a variable of the frame, if there is one that the place can see; None where
    there is none in a process that no launcher started, so that its variable is not set."""
    if view is not None and view.rank is not None and _sees(place, view.rank):
        return Code(view.rank)
    if is_spawned(event) or _numbers_itself(trace, event):
        return None
    return from_environment(place, trace.local_rank_variable)


def own_device(trace: Trace, event: Event, place: Place, view: View) -> Code | None:
    """What set_device takes: the local rank, or a device with it."""
    if view.rank is None and view.device is not None and _sees(place, view.device):
        return Code(view.device)
    return own_rank(trace, event, place, view)


def own_rank_at(trace: Trace, event: Event, written: Place) -> Code | None:
    """The local rank at a place that an event takes a value from. What the event's frames can name
    exists there if it is in the same statement, or in one of the frames' functions and behind the
    line that finds the local rank."""
    view = event.views[-1] if event.views and same_statement(written, event.place) else None
    if view is None:
        found = (view for view in reversed(event.views) if _runs(view, written))
        view = next(
            (view for view in found if view.rank and holds_at(written, root(view.rank))), None
        )
    return own_rank(trace, event, written, view)


def same_statement(a: Place, b: Place) -> bool:
    return a.module is b.module and (
        statement_around(a.module, a.node) is statement_around(b.module, b.node)
    )


def _numbers_itself(trace: Trace, event: Event) -> bool:
    """Whether the process takes its rank from elsewhere, from MPI perhaps, and writes it into the
    environment: no launcher has set its local rank there."""
    written = {
        each.name: each.detail["value"]
        for each in trace.of("variable")
        if each.process.owner() is event.process.owner()
    }
    return (
        isinstance(written.get("RANK"), Unknown)
        and trace.local_rank_variable == "LOCAL_RANK"
        and "LOCAL_RANK" not in written
    )


def is_spawned(event: Event) -> bool:
    """Whether the program itself started the process, and not a launcher."""
    return event.process.owner().kind == "spawned"


def _runs(view: View, place: Place) -> bool:
    """Whether the frame is one of the function (or file) that a place is in."""
    around, run = function_around(place), view.frame.function
    if view.frame.module is not place.module or (view.frame.owner is not None and run is None):
        return False
    return run is None if around is None else run is not None and run.body is around.body


def library_name(place: Place, full: str) -> tuple[str, tuple[str, ...]]:
    """How code at a place writes a library's dotted name, and what has to be imported for it."""
    name = spelled(full, path_to(place.module, place.node))
    return (full, (full.partition(".")[0],)) if name is None else (name, ())


def _sees(place: Place, text: str) -> bool:
    """A lambda's and a comprehension's variables do not exist in the statement around it, and some
    only in a distributed job."""
    return not may_be_unset(place, root(text)) and not any(
        isinstance(node, (cst.Lambda, cst.BaseComp))
        for node in path_to(place.module, place.node)[:-1]
    )
