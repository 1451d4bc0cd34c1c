"""The program's memory, with a journal: a branch can be run, taken back, and joined.

Every dictionary that values hold (variables, attributes, the state of the process) is written
through `write`. Running both sides of a branch then needs no copies: run one side, take its writes
back, run the other, and join the places where they differ.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ddpdoctor.lint.values import MISSING, Const, Value, either

Cell = dict[Any, Any]
Writes = dict[tuple[int, Any], tuple[Cell, Any, Any]]  # (id of cell, key) -> cell, key, value


class Heap:
    def __init__(self) -> None:
        self._journal: list[tuple[Cell, Any, Any]] = []
        self._forgotten: dict[int, Cell] = {}

    def write(self, cell: Cell, key: Any, value: Any) -> None:
        self._journal.append((cell, key, cell.get(key, MISSING)))
        cell[key] = value

    def delete(self, cell: Cell, key: Any) -> None:
        if key in cell:
            self._journal.append((cell, key, cell[key]))
            del cell[key]

    def mark(self) -> int:
        return len(self._journal)

    def take_back(self, mark: int) -> Writes:
        """Undoes all writes since the mark and returns what they had made of each place."""
        writes: Writes = {}
        undone = [write for write in self._journal[mark:] if id(write[0]) not in self._forgotten]
        for cell, key, _ in undone:
            place = (id(cell), key)
            if place not in writes:
                writes[place] = (cell, key, cell.get(key, MISSING))
        for cell, key, old in reversed(undone):
            _put(cell, key, old)
        del self._journal[mark:]
        return writes

    def forget(self, cell: Cell) -> None:
        """Ends a cell that nobody can read any more: no branch need join what was written to it.
        Most writes are of variables of functions that have returned."""
        cell.clear()
        self._forgotten[id(cell)] = cell  # kept, or another cell could get its id

    def repeat(self, writes: Writes) -> None:
        for cell, key, value in writes.values():
            self._set(cell, key, value)

    def join(self, key: Hashable, default: bool | None, yes: Writes, no: Writes) -> None:
        """Makes the state in which the condition decides between two sets of writes."""
        for place in yes.keys() | no.keys():
            cell, name, _ = yes.get(place) or no[place]
            if name == "#any":
                continue  # it is joined with the items
            old = cell.get(name, MISSING)
            on_yes = yes[place][2] if place in yes else old
            on_no = no[place][2] if place in no else old
            self._set(cell, name, join_raw(key, default, on_yes, on_no))
            if isinstance(on_yes, tuple) and isinstance(on_no, tuple):
                if len(on_yes) != len(on_no):  # a list that is longer on one side
                    self._set(cell, "open", True)
                sides = _holds_any(yes, cell, on_yes), _holds_any(no, cell, on_no)
                holds_any = either(key, default, *sides)
                if "#any" in cell or not isinstance(holds_any, Const):
                    self._set(cell, "#any", holds_any)

    def _set(self, cell: Cell, key: Any, value: Any) -> None:
        if value is MISSING:
            self.delete(cell, key)
        else:
            self.write(cell, key, value)


def _holds_any(writes: Writes, cell: Cell, items: tuple[Value, ...]) -> Value:
    """Whether a list has items on one side of a branch."""
    written = writes.get((id(cell), "#any"))
    known = cell.get("#any") if written is None else written[2]
    return known if isinstance(known, Value) and known is not MISSING else Const(bool(items))


def join_raw(key: Hashable, default: bool | None, yes: Any, no: Any) -> Any:
    """Joins two values, two tuples of items position by position (the longer one leads), or two
    facts of which each side may have found one."""
    if isinstance(yes, Value) and isinstance(no, Value):
        return either(key, default, yes, no)
    if isinstance(yes, tuple) and isinstance(no, tuple):
        pairs = zip(yes, no, strict=False)
        rest = yes[len(no) :] or no[len(yes) :]
        return (*(either(key, default, a, b) for a, b in pairs), *rest)
    if isinstance(yes, bool) and isinstance(no, bool):
        return yes or no
    return yes if no is MISSING else no


def _put(cell: Cell, key: Any, old: Any) -> None:
    if old is MISSING:
        cell.pop(key, None)
    else:
        cell[key] = old
