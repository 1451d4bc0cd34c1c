"""Findings as text for people: the place, what each rank does, what is seen, the repair."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence

from ddpdoctor.findings import Applicability, Finding, Fix, Location, Severity
from ddpdoctor.report.excerpt import place
from ddpdoctor.report.terminal import Screen, printable, wrapped
from ddpdoctor.report.words import ranges

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_APPLY = {
    Applicability.SAFE: "`--fix` does it",
    Applicability.UNSAFE: "`--fix --unsafe-fixes` does it; read the edit first with `--diff`",
}


def blocks(findings: Sequence[Finding], screen: Screen) -> list[list[str]]:
    """The lines that a person reads: what is said alike of several places is said once."""
    alike: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        said = (finding.code, finding.severity, finding.message, *notes(finding))
        alone = () if finding.filename else (len(alike),)
        alike.setdefault((*said, *alone), []).append(finding)
    quoted = {_line(finding.filename, finding.location) for finding in findings}
    return [_block(members, quoted, screen) for members in alike.values()]


def text(findings: Sequence[Finding], screen: Screen) -> str:
    """All findings, a blank line after each block."""
    return "".join("\n".join(block) + "\n\n" for block in blocks(findings, screen))


def _line(filename: str | None, location: Location | None) -> tuple[str | None, int | None]:
    return filename, location.row if location else None


def _block(alike: list[Finding], quoted: Container[object], screen: Screen) -> list[str]:
    style = screen.style
    told = alike[0]
    places = f", {len(alike)} places" if len(alike) > 1 else ""
    head = f"{told.code} {told.severity.value}{places}: "
    first, *rest = wrapped(head, told.message, screen.columns)
    lines = [style(head, _COLOURS[told.severity], bold=True) + style(first[len(head) :], bold=True)]
    lines += [style(line, bold=True) for line in rest]
    for finding in alike:
        lines += _places(finding, finding is told, quoted, screen)
    for label, note in notes(told):
        first, *rest = wrapped(f"  {label:<10} ", note, screen.columns)
        lines += [style(first[:13], "blue", bold=True) + first[13:], *rest]
    return lines


def _places(
    finding: Finding, context: bool, quoted: Container[object], screen: Screen
) -> Iterator[str]:
    """Where a finding stands, with or without the lines around, and what explains it: by its
    place alone where that line is quoted for a finding."""
    if finding.filename and finding.location:
        yield from place(
            "-->",
            finding.filename,
            finding.location,
            finding.end_location,
            context=context,
            screen=screen,
            colour=_COLOURS[finding.severity],
        )
    elif finding.filename:
        yield f"  {screen.style('-->', 'blue', bold=True)} {printable(finding.filename)}"
    for related in finding.related:
        shown = place(
            ":::",
            related.filename,
            related.location,
            None,
            note=f": {printable(related.message)}" if related.message else "",
            context=False,
            screen=screen,
            colour="blue",
        )
        yield from shown[:1] if _line(related.filename, related.location) in quoted else shown


def notes(finding: Finding) -> list[tuple[str, str]]:
    """What is known of a finding beside its message, each with a label."""
    told = [
        ("ranks:", ranges(finding.ranks)),
        ("each rank:", finding.behaviour),
        ("you see:", finding.symptom),
        ("repair:", finding.repair),
        ("edit:", _how_to_apply(finding.fix) if finding.fix else ""),
    ]
    return [(label, text) for label, text in told if text]


def _how_to_apply(fix: Fix) -> str:
    message = f"{fix.message.rstrip('.')}: " if fix.message else ""
    return message + _APPLY[fix.applicability]
