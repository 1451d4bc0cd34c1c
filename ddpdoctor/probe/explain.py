"""Joins what was seen at run time with the rule of lint that explains it, by file and line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError, Finding
from ddpdoctor.probe.results import Place

Explained = Callable[[], Sequence[Finding]]  # lint's findings; only asked where there is a place


def explain_with_lint(script: Path | None) -> tuple[tuple[Finding, ...], str]:
    """What lint finds in the program, and why that is nothing where it could not read it."""
    if script is None:
        return (), "no Python file was named, so no rule of lint explains what was seen"
    from ddpdoctor.config import find_config
    from ddpdoctor.lint import lint

    try:
        return lint([script], find_config([script])).findings, ""
    except DdpdoctorError as error:
        return (), f"no rule of lint explains what was seen: {error}"
    except KeyboardInterrupt:
        return (), "lint was interrupted, so no rule explains what was seen"
    except Exception as error:  # a bug in lint: what the run has shown must not be lost for it
        return (), f"lint failed on this program ({type(error).__name__}: {error})"


def explanation(explained: Explained, places: Iterable[Place | None]) -> Finding | None:
    """The first finding that stands on, or takes effect at, one of the places, nearest first."""
    wanted = [(os.path.realpath(place.filename), place.row) for place in places if place]
    findings = explained() if wanted else ()
    for file, row in wanted:
        for finding in findings:
            if stands_on(finding, file, row):
                return finding
    for file, row in wanted:
        for finding in findings:
            for related in finding.related:
                if os.path.realpath(related.filename) == file and related.location.row == row:
                    return finding
    return None


def stands_on(finding: Finding, file: str, row: int) -> bool:
    """Whether that line is one of the finding's own."""
    if finding.filename is None or finding.location is None:
        return False
    end = finding.end_location.row if finding.end_location else finding.location.row
    same = os.path.realpath(finding.filename) == os.path.realpath(file)
    return same and finding.location.row <= row <= end
