"""Repairs of the pages' examples where these are laid out in other ways than ours."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ddpdoctor.catalogue import Rule, rules
from ddpdoctor.lint import fix, lint, repair


def windows(program: str) -> str:
    return program.replace("\n", "\r\n")


def tabs(program: str) -> str:
    return program.replace("    ", "\t")


def in_a_method(program: str) -> str:
    """All but the imports."""
    lines = program.splitlines()
    top = [line for line in lines if re.match(r"import |from ", line)]
    rest = [f"        {line}" for line in lines if line and line not in top]
    return "\n".join(
        [*top, "class Job:", "    @staticmethod", "    def run():", *rest, "Job.run()"]
    )


def on_one_line(program: str) -> str:
    """Pairs of assignments and calls that follow each other."""
    lines = re.sub("  # DDP.*", "", program).splitlines()
    joined: set[int] = set()
    for node in ast.walk(ast.parse(program)):
        for first, second in pairwise(getattr(node, "body", [])):
            simple = all(isinstance(line, (ast.Assign, ast.Expr)) for line in (first, second))
            if simple and first.lineno not in joined:
                joined.add(second.lineno)
    for row in sorted(joined, reverse=True):
        lines[row - 2] += "; " + lines.pop(row - 1).strip()
    return "\n".join(lines)


def on_several_lines(program: str) -> str:
    """The first argument of the outermost call of a line, with a comma and a comment."""
    lines = program.splitlines()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            line, argument = lines[node.lineno - 1], node.args[0]
            if "\n" not in line:
                start, end = argument.col_offset, argument.end_col_offset
                lines[node.lineno - 1] = f"{line[:start]}\n{line[start:end]},  # note\n{line[end:]}"
    return "\n".join(lines)


LAYOUTS = [windows, tabs, in_a_method, on_one_line, on_several_lines]
REPAIRED = [rule for rule in rules().values() if rule.phase == "lint" and rule.fix != "none"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("rule", REPAIRED, ids=lambda rule: rule.code)
def test_a_repair_fits_the_layout(rule: Rule, layout: Callable[[str], str], tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    program = layout(rule.bad).encode()
    train.write_bytes(program)
    assert rule.code in {finding.code for finding in lint([train]).findings}
    assert fix([train], unsafe=True).linted.findings == ()
    after = train.read_bytes()
    compile(after, str(train), "exec")
    assert repair([train], unsafe=True).after == {}
    if b"\r\n" in program:
        assert after.count(b"\n") == after.count(b"\r\n")
