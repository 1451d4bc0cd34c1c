"""Findings a line each: concise, and GitHub's workflow commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from ddpdoctor.findings import Finding, Location
from ddpdoctor.report import Screen, Summary, render

SUMMARY = Summary(files=2, programs=1, skipped=("broken.py: syntax error",))


def test_concise(findings: list[Finding], snapshot: Callable[[str, str], None]) -> None:
    snapshot("findings-concise.txt", render(findings, "concise", SUMMARY, Screen()))


@pytest.mark.usefixtures("program")
def test_github(findings: list[Finding], snapshot: Callable[[str, str], None]) -> None:
    snapshot("findings-github.txt", render(findings, "github", SUMMARY, Screen()))


def test_a_message_cannot_start_a_workflow_command_of_its_own(findings: list[Finding]) -> None:
    hostile = replace(
        findings[0],
        filename="a,b:c%0A.py",
        message="one\n::set-env name=PATH::/evil",
        symptom="100 %\r\n::stop-commands::x",
    )
    text = render([hostile], "github", SUMMARY, Screen())
    assert text.count("\n") == 1
    assert "file=a%2Cb%3Ac%250A.py,line=" in text
    assert "100 %25" in text
    assert "::set-env" not in unquote(text).splitlines()


def test_github_columns_are_left_out_of_a_place_of_several_lines(findings: list[Finding]) -> None:
    several = replace(findings[0], end_location=Location(15, 3))
    assert ",col=" not in render([several], "github", SUMMARY, Screen())
    assert ",col=" in render([findings[0]], "github", SUMMARY, Screen())


def test_github_paths_are_relative_to_the_working_folder(
    findings: list[Finding], program: Path
) -> None:
    inside = replace(findings[0], filename=str(program / "main.py"))
    outside = replace(findings[0], filename=str(program.parent / "other.py"))
    assert "file=main.py," in render([inside], "github", SUMMARY, Screen())
    assert f"file={program.parent}/other.py," in render([outside], "github", SUMMARY, Screen())
