"""What happened alike on several ranks, told once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ddpdoctor.probe.results import Mismatch, Opening, ProbeRun

T = TypeVar("T")


@dataclass(frozen=True)
class Group(Generic[T]):
    """The first of those that are alike, and the ranks of all of them."""

    ranks: tuple[int, ...]
    first: T


def wrong_openings(run: ProbeRun) -> list[Group[Opening]]:
    """First uses of a GPU that is not the rank's own, by line and GPU, the earliest first."""
    wrong = sorted((one for one in run.openings if one.wrong), key=lambda one: one.at)
    return _grouped(wrong, lambda one: (one.device, one.place), lambda one: one.rank)


def mismatches(run: ProbeRun) -> list[Group[Mismatch]]:
    """By operation, line and tensors; the devices differ from rank to rank."""
    return _grouped(
        run.mismatches,
        lambda one: (
            one.operation,
            one.module,
            one.place,
            one.silent,
            tuple((tensor.name, tensor.kind, tensor.shape) for tensor in one.tensors),
        ),
        lambda one: one.rank,
    )


def _grouped(
    items: Iterable[T], alike: Callable[[T], Hashable], rank: Callable[[T], int | None]
) -> list[Group[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(alike(item), []).append(item)
    return [
        Group(tuple(n for n in map(rank, members) if n is not None), members[0])
        for members in groups.values()
    ]
