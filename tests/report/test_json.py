"""JSON is ruff's shape, and what cannot be printed travels as escapes."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from ddpdoctor.findings import Finding
from ddpdoctor.report import Screen, Summary, render
from ddpdoctor.report.summary import closing_lines


def test_json_is_a_list_of_objects_as_in_ruff(findings: list[Finding]) -> None:
    first, *_, last = json.loads(render(findings, "json", Summary(2, 1), Screen(colour=True)))
    assert first["code"] == "DDP101"
    assert first["severity"] == "error"
    assert first["filename"] == "main.py"
    assert first["location"] == {"row": 13, "column": 13}
    assert first["end_location"] == {"row": 13, "column": 33}
    assert first["fix"]["edits"][0]["content"] == "    torch.cuda.set_device(LOCAL_RANK)\n"
    assert last["location"] is last["fix"] is None


def test_json_of_nothing_is_an_empty_list() -> None:
    assert json.loads(render([], "json", Summary(1, 1), Screen())) == []


def test_any_name_comes_back_whole_from_ascii_json(findings: list[Finding]) -> None:
    name = os.fsdecode(b"\xff\x1b[31m \xe6\xa8\xa1.py")
    text = render([replace(findings[0], filename=name)], "json", Summary(1, 1), Screen())
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)[0]["filename"] == name


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ([0], "`--fix` repairs 1 of 1; `--diff` shows the edits."),
        ([2], "`--fix --unsafe-fixes` repairs 1 of 1; `--diff` shows the edits."),
        ([0, 1, 2], "`--fix` repairs 1 and `--fix --unsafe-fixes` repairs 2 of 3;"),
        ([1], "2 files looked at, 1 distributed program."),
    ],
)
def test_the_closing_lines_count_what_can_be_repaired(
    findings: list[Finding], chosen: list[int], told: str
) -> None:
    last = closing_lines([findings[i] for i in chosen], Summary(2, 1))[-1]
    assert told in last
    assert ("repairs" in last) == (chosen != [1])
