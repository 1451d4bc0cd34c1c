"""The memory's journal: a branch is run, taken back, repeated or joined."""

from __future__ import annotations

from typing import Any

from ddpdoctor.lint.heap import Heap
from ddpdoctor.lint.values import MISSING, Const, Either, Sequence, Value


def test_taking_back_restores_what_was_there() -> None:
    heap = Heap()
    cell: dict[Any, Any] = {"kept": Const(1), "changed": Const(2)}
    before = dict(cell)
    mark = heap.mark()
    heap.write(cell, "changed", Const(3))
    heap.write(cell, "changed", Const(4))
    heap.write(cell, "new", Const(5))
    heap.delete(cell, "kept")
    writes = heap.take_back(mark)
    assert cell == before
    heap.repeat(writes)
    assert {key: value.value for key, value in cell.items()} == {"changed": 4, "new": 5}


def test_an_outer_mark_takes_back_what_inner_ones_repeated() -> None:
    heap = Heap()
    cell: dict[Any, Any] = {}
    outer = heap.mark()
    inner = heap.mark()
    heap.write(cell, "x", Const(1))
    heap.repeat(heap.take_back(inner))
    assert cell["x"].value == 1
    heap.take_back(outer)
    assert cell == {}


def test_joining_keeps_both_sides_with_their_condition() -> None:
    heap = Heap()
    cell: dict[Any, Any] = {"both": Const(0), "one": Const(0)}
    sides = []
    for number in (1, 2):
        mark = heap.mark()
        heap.write(cell, "both", Const(number))
        heap.write(cell, f"only {number}", Const(number))
        if number == 1:
            heap.write(cell, "one", Const(9))
        sides.append(heap.take_back(mark))
    heap.join("flag", True, *sides)
    joined = cell["both"]
    assert isinstance(joined, Either)
    assert (joined.key, joined.default) == ("flag", True)
    assert (joined.yes.value, joined.no.value) == (1, 2)
    assert (cell["one"].yes.value, cell["one"].no.value) == (9, 0)
    assert cell["only 1"].no is MISSING
    assert cell["only 2"].yes is MISSING


def test_joining_equal_values_asks_no_question() -> None:
    heap = Heap()
    cell: dict[Any, Any] = {}
    sides = []
    for _ in range(2):
        mark = heap.mark()
        heap.write(cell, "x", Const("same"))
        sides.append(heap.take_back(mark))
    heap.join("flag", None, *sides)
    assert cell["x"].value == "same"


def test_lists_are_joined_item_by_item() -> None:
    heap = Heap()
    items = Sequence((Const(0),))
    sides = []
    for number in (1, 2):
        mark = heap.mark()
        heap.write(items.cell, "items", (Const(0), *[Const(number)] * number))
        sides.append(heap.take_back(mark))
    heap.join("flag", None, *sides)
    first, second, third = items.items
    assert isinstance(first, Const)
    assert isinstance(second, Either)
    assert (second.yes.value, second.no.value) == (1, 2)  # type: ignore[attr-defined]
    assert isinstance(third, Const)
    assert items.open


def test_what_one_side_alone_finds_out_may_hold() -> None:
    heap = Heap()
    cell: dict[Any, Any] = {"open": False}
    sides = []
    for number in (1, 2):
        mark = heap.mark()
        if number == 1:
            heap.write(cell, "open", True)
        sides.append(heap.take_back(mark))
        assert cell == {"open": False}
    heap.join("flag", None, *sides)
    assert cell == {"open": True}


def test_what_is_forgotten_is_neither_taken_back_nor_joined() -> None:
    heap = Heap()
    mark = heap.mark()
    ended: dict[str, Value] = {}
    kept: dict[str, Value] = {}
    heap.write(ended, "a", Const(1))
    heap.write(kept, "a", Const(2))
    heap.forget(ended)
    writes = heap.take_back(mark)
    assert [cell for cell, _, _ in writes.values()] == [kept]
    assert kept == {}
