"""The code by which a repair says "this rank's own GPU" at a place of a file."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ddpdoctor.lint.imports import spelled
from ddpdoctor.lint.reach import View
from ddpdoctor.lint.repairs import path_to, statement_around
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Place


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


def own_rank(place: Place, variable: str, view: View | None) -> Code:
    """The local rank: a variable of the frame, if there is one that the place can see."""
    if view is not None and view.rank is not None and _sees(place):
        return Code(view.rank)
    return from_environment(place, variable)


def own_device(place: Place, variable: str, view: View) -> Code:
    """What set_device takes: the local rank, or a device with it."""
    if view.rank is None and view.device is not None and _sees(place):
        return Code(view.device)
    return own_rank(place, variable, view)


def own_rank_at(trace: Trace, event: Event, written: Place) -> Code:
    """The local rank at a place that an event takes a value from. The variables of the event's
    frame exist there only if it is in the same statement."""
    module = written.module
    same = module is event.place.module and statement_around(
        module, written.node
    ) is statement_around(module, event.place.node)
    view = event.views[-1] if same and event.views else None
    return own_rank(written, trace.local_rank_variable, view)


def library_name(place: Place, full: str) -> tuple[str, tuple[str, ...]]:
    """How code at a place writes a library's dotted name, and what has to be imported for it."""
    name = spelled(full, path_to(place.module, place.node))
    return (full, (full.partition(".")[0],)) if name is None else (name, ())


def _sees(place: Place) -> bool:
    """A lambda's and a comprehension's variables do not exist in the statement around it."""
    return not any(
        isinstance(node, (cst.Lambda, cst.BaseComp))
        for node in path_to(place.module, place.node)[:-1]
    )
