"""Findings as text for people: the place, what each rank does, what is seen, the repair."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.findings import Applicability, Finding, Fix, Severity
from ddpdoctor.report.excerpt import place
from ddpdoctor.report.terminal import Screen, printable, wrapped
from ddpdoctor.report.words import ranges

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_APPLY = {
    Applicability.SAFE: "`--fix` does it",
    Applicability.UNSAFE: "`--fix --unsafe-fixes` does it; read the edit first with `--diff`",
}


def finding_lines(finding: Finding, screen: Screen) -> list[str]:
    """One finding, in the lines that a person reads."""
    style = screen.style
    colour = _COLOURS[finding.severity]
    head = f"{finding.code} {finding.severity.value}: "
    first, *rest = wrapped(head, finding.message, screen.columns)
    lines = [style(head, colour, bold=True) + style(first[len(head) :], bold=True)]
    lines += [style(line, bold=True) for line in rest]
    if finding.filename and finding.location:
        lines += place(
            "-->",
            finding.filename,
            finding.location,
            finding.end_location,
            screen=screen,
            colour=colour,
        )
    elif finding.filename:
        lines.append(f"  {style('-->', 'blue', bold=True)} {printable(finding.filename)}")
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
        is_shown = finding.location is not None and (
            (related.filename, related.location.row) == (finding.filename, finding.location.row)
        )
        lines += shown[:1] if is_shown else shown
    for label, text in notes(finding):
        first, *rest = wrapped(f"  {label:<10} ", text, screen.columns)
        lines += [style(first[:13], "blue", bold=True) + first[13:], *rest]
    return lines


def text(findings: Sequence[Finding], screen: Screen) -> str:
    """All findings, a blank line after each."""
    return "".join("\n".join(finding_lines(finding, screen)) + "\n\n" for finding in findings)


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
