"""The rule pages: complete, in one form, and their examples show what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.catalogue import Rule, rules
from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.resources import resource

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = [
    "What it does",
    "Why it hurts",
    "Example",
    "Use instead",
    "When it is fine",
    "Fix safety",
    "References",
]
EVERY_CODE = [
    *(f"DDP{code}" for code in range(101, 108)),
    *(f"DDP{code}" for code in range(201, 211)),
    *(f"DDP{code}" for code in range(301, 308)),
    *(f"DDP{code}" for code in range(401, 405)),
    *(f"DDP{code}" for code in range(501, 508)),
]
every_rule = pytest.mark.parametrize("rule", rules().values(), ids=rules().keys())
lint_rule = pytest.mark.parametrize(
    "rule", [rule for rule in rules().values() if rule.phase == "lint"], ids=lambda rule: rule.code
)


def ddpdoctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddpdoctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def markers(program: str) -> list[tuple[int, str]]:
    """The (row, code) of each `# DDP101: …` in a program."""
    found = []
    for row, line in enumerate(program.splitlines(), 1):
        found += [(row, code) for code in re.findall(r"# (DDP\d{3}):", line)]
    return found


def test_every_rule_of_the_design_has_a_page() -> None:
    assert list(rules()) == EVERY_CODE


@every_rule
def test_a_page_is_named_for_its_rule_and_has_every_section(rule: Rule) -> None:
    assert (resource("rules") / f"{rule.code}-{rule.name}.md").is_file()
    assert re.findall(r"^## (.+)$", rule.page, re.MULTILINE) == SECTIONS
    assert rule.fix in {"safe", "unsafe", "none"}
    assert rule.phase == ("probe" if rule.code.startswith("DDP5") else "lint")
    assert len(rule.summary) <= 72, "the list of rules has a line for each"


@lint_rule
def test_the_examples_are_programs_that_mark_the_defect(rule: Rule) -> None:
    compile(rule.bad, f"{rule.code} bad", "exec")
    compile(rule.good, f"{rule.code} good", "exec")
    assert rule.code in {code for _, code in markers(rule.bad)}
    assert not markers(rule.good)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What one run of lint finds in the examples of all rules, by "CODE/bad.py"."""
    folder = tmp_path_factory.mktemp("examples")
    for rule in rules().values():
        if rule.phase == "lint":
            (folder / rule.code).mkdir()
            (folder / rule.code / "bad.py").write_text(rule.bad)
            (folder / rule.code / "good.py").write_text(rule.good)
    result = ddpdoctor("lint", "--output-format", "json", str(folder))
    assert result.returncode == 1, result.stderr
    by_file: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(result.stdout):
        by_file.setdefault(str(Path(one["filename"]).relative_to(folder)), []).append(one)
    return by_file


@lint_rule
def test_lint_finds_in_an_example_what_it_marks(
    rule: Rule, found: dict[str, list[dict[str, Any]]]
) -> None:
    in_bad = [(one["location"]["row"], one["code"]) for one in found[f"{rule.code}/bad.py"]]
    assert sorted(in_bad) == markers(rule.bad)
    assert f"{rule.code}/good.py" not in found


@lint_rule
def test_a_page_tells_the_severity_and_the_fix_of_its_example(
    rule: Rule, found: dict[str, list[dict[str, Any]]]
) -> None:
    own = next(one for one in found[f"{rule.code}/bad.py"] if one["code"] == rule.code)
    fix = own["fix"]["applicability"] if own["fix"] else "none"
    assert (rule.severity.value, rule.fix) == (own["severity"], fix)


def test_explain_prints_the_page_of_a_rule() -> None:
    result = ddpdoctor("explain", "ddp303")
    assert result.returncode == 0
    assert result.stdout.startswith("# DDP303 module-not-on-device-ids\n")
    assert rules()["DDP303"].page in result.stdout


def test_explain_of_an_unknown_rule_is_one_clear_line() -> None:
    result = ddpdoctor("explain", "DDP999")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ddpdoctor: unknown rule DDP999; `ddpdoctor rules` lists them\n"


def test_the_list_of_rules_fits_a_screen() -> None:
    result = ddpdoctor("rules")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    for rule in rules().values():
        assert any(rule.code in line and rule.summary in line for line in lines)


def test_a_broken_page_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "DDP101-bare-cuda.md"
    page.write_text('+++\ncode = "DDP101"\n+++\n')
    monkeypatch.setattr("ddpdoctor.catalogue.resource", lambda name: tmp_path)
    rules.cache_clear()
    try:
        with pytest.raises(DdpdoctorError, match=re.escape(str(page))):
            rules()
    finally:
        rules.cache_clear()


def test_the_table_in_the_readme_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "rules_table.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
