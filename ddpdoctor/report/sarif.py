"""Findings as SARIF 2.1.0, for code scanning services and viewers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ddpdoctor import __version__
from ddpdoctor.catalogue import Rule, rules
from ddpdoctor.findings import Edit, Finding, Location, Related, Severity
from ddpdoctor.report.summary import Summary
from ddpdoctor.report.terminal import printable

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(findings: Sequence[Finding], summary: Summary) -> str:
    """One run with the catalogue's rules; skipped files become notifications of the tool."""
    catalogue = rules()
    order = {code: number for number, code in enumerate(catalogue)}
    run = {
        "tool": {
            "driver": {
                "name": "ddpdoctor",
                "version": __version__,
                "rules": [_rule(rule) for rule in catalogue.values()],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": f"skipped {printable(line)}"}}
                    for line in summary.skipped
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, order) for finding in findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, order: dict[str, int]) -> dict[str, Any]:
    sentences = [finding.message, finding.behaviour, finding.symptom, finding.repair]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(sentence for sentence in sentences if sentence)},
        "locations": [],
    }
    if finding.code in order:
        result["ruleIndex"] = order[finding.code]
    if finding.filename:
        physical: dict[str, Any] = {"artifactLocation": _artifact(finding.filename)}
        if finding.location:
            physical["region"] = _region(finding.location, finding.end_location)
        result["locations"] = [{"physicalLocation": physical}]
    if finding.related:
        result["relatedLocations"] = [
            _related(number, related) for number, related in enumerate(finding.related, 1)
        ]
    if finding.fix:
        result["fixes"] = [
            {
                "description": {"text": finding.fix.message or finding.repair or finding.message},
                "artifactChanges": _changes(finding.fix.edits),
            }
        ]
        result["properties"] = {"fixApplicability": finding.fix.applicability.value}
    return result


def _related(number: int, related: Related) -> dict[str, Any]:
    return {
        "id": number,
        "message": {"text": related.message},
        "physicalLocation": {
            "artifactLocation": _artifact(related.filename),
            "region": _region(related.location, None),
        },
    }


def _changes(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """One artifactChange a file, in the order of its first edit."""
    files = dict.fromkeys(edit.filename for edit in edits)
    return [
        {
            "artifactLocation": _artifact(filename),
            "replacements": [
                {
                    "deletedRegion": _region(edit.location, edit.end_location),
                    "insertedContent": {"text": edit.content},
                }
                for edit in edits
                if edit.filename == filename
            ],
        }
        for filename in files
    ]


def _region(start: Location, end: Location | None) -> dict[str, int]:
    region = {"startLine": start.row, "startColumn": start.column}
    if end is not None:
        region |= {"endLine": end.row, "endColumn": end.column}
    return region


def _artifact(filename: str) -> dict[str, str]:
    """Relative to the source root (the working folder) where possible, as GitHub wants it.

    A URI's bytes are the path's own: a name that is not UTF-8 comes back whole.
    """
    path = Path(os.path.abspath(filename))
    here = Path.cwd()
    if path.is_relative_to(here):
        uri = quote(os.fsencode(path.relative_to(here)))
        return {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"uri": f"file://{quote(os.fsencode(path))}"}
