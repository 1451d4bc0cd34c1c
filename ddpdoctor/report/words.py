"""Numbers as a person writes them: ranks, memory, time."""

from __future__ import annotations

from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> str:
    """ "0-3, 5"."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def ranks(numbers: Iterable[int | None]) -> str:
    """ "rank 3", "ranks 0-7", "an unknown rank"."""
    known = {number for number in numbers if number is not None}
    if not known:
        return "an unknown rank"
    return f"{'rank' if len(known) == 1 else 'ranks'} {ranges(known)}"


def count(number: int, noun: str, plural: str = "") -> str:
    """ "1 file", "3 files"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def memory(size: int | None) -> str:
    """Bytes with three digits: "512 MiB", "1.95 GiB"; "unknown" where the driver never told."""
    if size is None:
        return "unknown"
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1000:
            break
        amount, unit = amount / 1024, larger
    if unit == "B":
        return f"{size} B"
    return f"{amount:.{2 if amount < 10 else 1 if amount < 100 else 0}f} {unit}"


def duration(seconds: float) -> str:
    """ "0.4 s", "41 s", "12 min 5 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
