"""Joins what was seen at run time with the rule of lint that explains it, by file and line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError, Finding
from ddpdoctor.probe.results import Place


def explain_with_lint(script: Path | None) -> list[Finding]:
    """What lint finds in the program; nothing where there is no file that it can read."""
    if script is None:
        return []
    from ddpdoctor.lint import analyze

    try:
        return list(analyze([script]))
    except DdpdoctorError:  # no distributed program for lint: the run speaks for itself
        return []


def explanation(findings: Sequence[Finding], places: Iterable[Place | None]) -> Finding | None:
    """The first finding that stands on, or takes effect at, one of the places, nearest first."""
    wanted = [(os.path.realpath(place.filename), place.row) for place in places if place]
    for file, row in wanted:
        for finding in findings:
            if _covers(finding, file, row):
                return finding
    for file, row in wanted:
        for finding in findings:
            for related in finding.related:
                if os.path.realpath(related.filename) == file and related.location.row == row:
                    return finding
    return None


def _covers(finding: Finding, file: str, row: int) -> bool:
    if finding.filename is None or finding.location is None:
        return False
    end = finding.end_location.row if finding.end_location else finding.location.row
    return os.path.realpath(finding.filename) == file and finding.location.row <= row <= end
