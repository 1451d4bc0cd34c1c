"""Branches: runs the side that is taken, or both sides, and joins what they made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ddpdoctor.lint.heap import join_raw
from ddpdoctor.lint.paths import assume, resolve, truth
from ddpdoctor.lint.values import Const, Either, Not, Value

if TYPE_CHECKING:
    from ddpdoctor.lint.run import Run

T = TypeVar("T")


class Dead(Exception):
    """The program ends on this path: an exception or an exit. exits: no handler can catch it."""

    def __init__(self, *, exits: bool = False) -> None:
        super().__init__()
        self.exits = exits


def fork(run: Run, condition: Value, yes: Callable[[], T], no: Callable[[], T]) -> T:
    """Runs the side that is taken, or both from the same state, and joins what they made.

    Raises Dead where every side that can be taken ends the program.
    """
    verdict = truth(condition, run.path)
    if isinstance(verdict, bool):
        return yes() if verdict else no()
    if verdict.inverted:
        yes, no = no, yes
        condition = Not(condition)
    results: list[tuple[T] | Dead] = []
    sides = []
    before = run.path
    for wanted, side in ((True, yes), (False, no)):
        mark = run.heap.mark()
        run.path = {**before, **assume(condition, wanted, before)}
        try:
            results.append((side(),))
        except Dead as dead:
            results.append(dead)
        finally:
            run.path = before
        sides.append(run.heap.take_back(mark))
    on_yes, on_no = results
    if isinstance(on_yes, Dead):
        if isinstance(on_no, Dead):
            raise on_yes
        run.heap.repeat(sides[1])
        run.path = {**before, **assume(condition, False, before)}
        return on_no[0]
    if isinstance(on_no, Dead):
        run.heap.repeat(sides[0])
        run.path = {**before, **assume(condition, True, before)}
        return on_yes[0]
    run.heap.join(verdict.key, verdict.default, *sides)
    joined: T = join_raw(verdict.key, verdict.default, on_yes[0], on_no[0])
    return joined


def split(run: Run, value: Value, action: Callable[[Value], T]) -> T:
    """Runs an action with side effects on each alternative of a value."""
    value = resolve(value, run.path)
    if not isinstance(value, Either):
        return action(value)
    chosen = Either(value.key, value.default, Const(True), Const(False))
    return fork(
        run,
        chosen,
        lambda: split(run, value.yes, action),
        lambda: split(run, value.no, action),
    )
