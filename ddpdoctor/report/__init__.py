"""Findings and placements as text, JSON, SARIF, GitHub annotations and HTML.

Everything here knows findings and what a probe saw, never the analyses that made them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.findings import Finding
from ddpdoctor.report.summary import Summary, closing_lines
from ddpdoctor.report.terminal import Screen, printable

FORMATS = ("text", "concise", "json", "sarif", "github")

__all__ = ["FORMATS", "Screen", "Summary", "closing", "render"]


def render(findings: Sequence[Finding], format: str, summary: Summary, screen: Screen) -> str:
    """What goes to standard output, complete: for a machine's format nothing but that format.

    `closing` is part of the text for people; beside another format it belongs on standard error.
    """
    if format == "json":
        import json

        return json.dumps([finding.to_dict() for finding in findings], indent=2) + "\n"
    if format == "sarif":
        from ddpdoctor.report.sarif import sarif

        return sarif(findings, summary) + "\n"
    if format in ("concise", "github"):
        from ddpdoctor.report import lines

        line = lines.concise if format == "concise" else lines.github
        return "".join(f"{line(finding)}\n" for finding in findings)
    from ddpdoctor.report.text import text

    return text(findings, screen) + closing(findings, summary)


def closing(findings: Sequence[Finding], summary: Summary) -> str:
    """What was skipped, found, looked at and can be repaired, in a few lines."""
    return "".join(f"{printable(line)}\n" for line in closing_lines(findings, summary))
