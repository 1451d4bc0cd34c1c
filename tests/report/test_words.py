"""Numbers as a person writes them."""

from __future__ import annotations

import pytest

from ddpdoctor.report.words import duration, memory, ranges, ranks


def test_ranges() -> None:
    assert ranges([3, 1, 2, 0, 5, 8, 7]) == "0-3, 5, 7-8"
    assert ranks([4]) == "rank 4"
    assert ranks([1, 0, None]) == "ranks 0-1"
    assert ranks([None]) == "an unknown rank"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (300 * 1024, "300 KiB"),
        (512 * 2**20, "512 MiB"),
        (2100 * 2**20, "2.05 GiB"),
        (80 * 2**30, "80.0 GiB"),
    ],
)
def test_memory(size: int | None, text: str) -> None:
    assert memory(size) == text


def test_duration() -> None:
    assert [duration(s) for s in (0.44, 41.2, 725)] == ["0.4 s", "41 s", "12 min 5 s"]
