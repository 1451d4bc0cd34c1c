"""What the code around an event can name: its own local rank, for repairs that write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.values import Device, Dict, Index, Object, Role, Scope, Value

if TYPE_CHECKING:
    from ddpdoctor.lint.run import Frame, Run


# Of a scope, in the order of their first assignment: a program finds its local rank early, and
# looking at all of them at every event makes long scripts slow.
_MOST_VARIABLES = 200


@dataclass(frozen=True)
class View:
    """A frame at one moment. rank: an expression that is the local rank there, such as
    "args.gpu", or None; device: one that is the rank's own device."""

    frame: Frame
    rank: str | None
    device: str | None


def views(run: Run) -> tuple[View, ...]:
    """The frames that are being run, outermost first."""
    return tuple(_view(run, frame) for frame in run.frames)


def may_need_repair(run: Run, kind: str, device: Value | None) -> bool:
    """Whether a repair may start from an event; looking at what its frames hold costs time."""
    if kind in _NEVER_REPAIRED:
        return False
    if kind not in _PLACING or not _is_own(resolve(run.cell["current"], run.path)):
        return True
    return isinstance(device, Device) and device.index is not None and not _is_own(device.index)


_NEVER_REPAIRED = frozenset(
    {"make", "meet", "keep", "asks", "lookup", "query", "question", "state", "variable", "launcher"}
)
_PLACING = frozenset({"place", "create", "context", "current"})


def _view(run: Run, frame: Frame) -> View:
    ranks: list[str] = []
    devices: list[str] = []
    for text, value in _named(run, frame):
        if _is_own(value):
            ranks.append(text)
        elif isinstance(value, Device) and value.kind == "cuda" and _is_own(value.index):
            devices.append(text)
    return View(frame, _best(ranks), _best(devices))


def _best(texts: list[str]) -> str | None:
    """A plain variable before an attribute, a name that says local before another."""
    return min(texts, key=lambda text: (not text.isidentifier(), "local" not in text), default=None)


def _is_own(value: Value | None) -> bool:
    return isinstance(value, Index) and value.role is Role.LOCAL and value.exact


def _named(run: Run, frame: Frame) -> Iterator[tuple[str, Value]]:
    seen: set[str] = set()
    scope: Scope | None = frame.scope
    # A module may set its variables under `if __name__ == "__main__"`: functions use their own.
    while scope is not None and (scope.outer is not None or scope is frame.scope):
        for name, held in list(islice(scope.variables.items(), _MOST_VARIABLES)):
            if not isinstance(name, str) or not name.isidentifier() or name in seen:
                continue
            seen.add(name)
            value = resolve(held, run.path)
            yield name, value
            if scope is not frame.scope:
                continue
            if isinstance(value, Object):
                for attribute, inner in list(value.attributes.items()):
                    if isinstance(attribute, str) and attribute.isidentifier():
                        yield f"{name}.{attribute}", resolve(inner, run.path)
            elif isinstance(value, Dict):
                for key, inner in list(value.entries.items()):
                    if isinstance(key, str) and key.isidentifier():
                        yield f'{name}["{key}"]', resolve(inner, run.path)
        scope = scope.outer
