"""The cases from public bug reports: the bad ones are found, the right ones are clean."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.findings import Severity
from ddpdoctor.lint import lint

FOLDER = Path(__file__).parents[2] / "fixtures" / "cases"
CASES: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*/case.json"))
}
VARIANTS = [
    f"{name}/{variant}"
    for name in CASES
    for variant in ("good", "negative")
    if (FOLDER / name / variant).is_dir()
]
DECIDABLE = [
    name
    for name, case in CASES.items()
    if (FOLDER / name / "bad").is_dir() and case.get("decidable") != "runtime"
]


@cache
def found_in(variant: str) -> list[tuple[str, int, str]]:
    """The errors and warnings in one variant of a case: (file, row, code)."""
    name, _, _ = variant.partition("/")
    folder = FOLDER / variant
    linted = lint([folder / CASES[name]["entry"]])
    return [
        (
            Path(finding.filename).relative_to(folder).as_posix(),
            finding.location.row,
            finding.code,
        )
        for finding in linted.findings
        if finding.severity is not Severity.INFO
    ]


def test_no_case_is_lost() -> None:
    assert len(CASES) == 280
    assert len(VARIANTS) == 490
    assert len(DECIDABLE) == 261


@pytest.mark.parametrize("name", DECIDABLE)
def test_a_bad_program_is_found_on_a_line_that_its_author_would_change(name: str) -> None:
    places = [*CASES[name]["expected"], *CASES[name]["also_accepted"]]
    accepted = {(place["file"], place["line"]) for place in places}
    found = {(file, row) for file, row, _ in found_in(f"{name}/bad")}
    assert found & accepted


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_right_program_is_clean(variant: str) -> None:
    assert found_in(variant) == []
