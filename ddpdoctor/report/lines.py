"""Findings a line each: for editors and grep, and as GitHub's workflow commands."""

from __future__ import annotations

import os
from pathlib import Path

from ddpdoctor.findings import Finding, Severity
from ddpdoctor.report.terminal import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def concise(finding: Finding) -> str:
    """`path:row:column: CODE message`, as ruff's and flake8's."""
    at = "".join(
        f"{part}:"
        for part in (
            printable(finding.filename) if finding.filename else None,
            finding.location.row if finding.location else None,
            finding.location.column if finding.location else None,
        )
        if part is not None
    )
    return f"{at} {finding.code} {printable(finding.message)}".lstrip()


def github(finding: Finding) -> str:
    """A workflow command: GitHub shows it at the line in a pull request's diff."""
    properties = {"title": f"ddpdoctor ({finding.code})"}
    start, end = finding.location, finding.end_location
    if finding.filename:
        properties["file"] = printable(_from_here(finding.filename))
    if finding.filename and start:
        end = end or start
        properties |= {"line": str(start.row), "endLine": str(end.row)}
        if start.row == end.row:  # GitHub drops an annotation that has columns on several lines
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    body = [concise(finding), finding.behaviour, finding.symptom, finding.repair]
    message = _escape_data("\n".join(printable(part) for part in body if part))
    listed = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listed}::{message}"


def _from_here(filename: str) -> str:
    """Relative to the working folder where it lies inside, since GitHub knows only such paths."""
    path = Path(os.path.abspath(filename))
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename


def _escape_data(value: str) -> str:
    """As actions/toolkit's command.ts escapes a command's message."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(value: str) -> str:
    """As actions/toolkit's command.ts escapes a command's property."""
    return _escape_data(value).replace(":", "%3A").replace(",", "%2C")
