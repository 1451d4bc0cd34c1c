"""The generator of a rule's files: what it writes is a page and a module that fit in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree that may be written to."""
    skip = shutil.ignore_patterns("__pycache__", "virtual", "probe")
    for name in ("ddpdoctor", "rules", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skip)
    return tmp_path


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=copy, capture_output=True, text=True, timeout=60
    )


def test_a_new_rule_is_in_the_catalogue_and_in_lint_at_once(copy: Path) -> None:
    made = run(copy, "tools/new_rule.py", "DDP199", "made-up")
    assert made.returncode == 0, made.stderr
    program = copy / "train.py"
    page = (copy / "rules" / "DDP199-made-up.md").read_text()
    program.write_text(page.split("```python bad\n")[1].split("```")[0])
    explained = run(copy, "-m", "ddpdoctor", "explain", "DDP199")
    assert explained.stdout.startswith("# DDP199 made-up\n"), explained.stderr
    linted = run(copy, "-m", "ddpdoctor", "lint", "--output-format", "concise", "train.py")
    assert "DDP199" in linted.stdout, linted.stderr


def test_a_code_that_is_taken_or_wrong_is_refused(copy: Path) -> None:
    for code in ("DDP101", "XYZ1"):
        refused = run(copy, "tools/new_rule.py", code, "made-up")
        assert refused.returncode == 2
        assert len(refused.stderr.splitlines()) == 1
    assert not list(copy.glob("rules/*made-up*"))
