"""The pages' examples under lint: the bad one has its marks, the good one none, repairs cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddpdoctor.catalogue import Rule, rules
from ddpdoctor.lint import fix, lint, repair

LINTED = {code: rule for code, rule in rules().items() if rule.phase == "lint"}
every_rule = pytest.mark.parametrize("rule", LINTED.values(), ids=LINTED.keys())


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


@every_rule
def test_lint_finds_in_the_examples_what_they_mark(rule: Rule, train: Path) -> None:
    for program in (rule.bad, rule.good):
        train.write_text(program)
        found = [(one.location.row, one.code) for one in lint([train]).findings if one.location]
        assert sorted(found) == [
            (row, code)
            for row, line in enumerate(program.splitlines(), 1)
            for code in re.findall(r"# (DDP\d{3}):", line)
        ]


@every_rule
def test_a_finding_has_the_severity_and_the_kind_of_fix_of_its_page(
    rule: Rule, train: Path
) -> None:
    train.write_text(rule.bad)
    (finding,) = (one for one in lint([train]).findings if one.code == rule.code)
    assert finding.severity is rule.severity
    assert (finding.fix.applicability.value if finding.fix else "none") == rule.fix


@every_rule
def test_what_has_a_fix_is_clean_after_it(rule: Rule, train: Path) -> None:
    train.write_text(rule.bad)
    left = fix([train], unsafe=True).linted.findings
    assert [one.code for one in left] == ([rule.code] if rule.fix == "none" else [])
    compile(train.read_text(), str(train), "exec")
    assert repair([train], unsafe=True).after == {}


@every_rule
def test_safe_fixes_are_made_by_fix_alone(rule: Rule, train: Path) -> None:
    train.write_text(rule.bad)
    left = {one.code for one in fix([train]).linted.findings}
    assert (rule.code in left) == (rule.fix != "safe")
