"""The programs in fixtures/: lint finds what they mark, and the repaired one really trains."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
MARKED = ("article", "elastic_toy")
Found = set[tuple[str, int, str]]


def lint(folder: Path, *options: str) -> tuple[int, Found]:
    """The exit code, and (path in the folder, row, code) of each finding in the marked programs."""
    command = [sys.executable, "-m", "ddpdoctor", "lint", "--output-format", "json", *options]
    paths = [str(folder / name) for name in MARKED]
    result = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=60)
    assert result.stdout, result.stderr
    found = set()
    for one in json.loads(result.stdout):
        place = Path(one["filename"]).relative_to(folder)
        found.add((str(place), one["location"]["row"], one["code"]))
    return result.returncode, found


def marked() -> Found:
    """(path, row, code) of each `# DDP101: …` in the marked programs."""
    return {
        (str(path.relative_to(FIXTURES)), row, code)
        for name in MARKED
        for path in (FIXTURES / name).rglob("*.py")
        for row, line in enumerate(path.read_text().splitlines(), 1)
        for code in re.findall(r"# (DDP\d{3}):", line)
    }


def test_lint_finds_exactly_what_is_marked() -> None:
    assert lint(FIXTURES) == (1, marked())


def test_the_defects_of_the_article_are_all_there() -> None:
    codes = {code for _, _, code in marked()}
    assert codes == {f"DDP{number}" for number in (101, 104, 105, 201, 204, 301, 303)}


def test_after_the_repairs_nothing_is_found_and_a_second_run_changes_nothing(
    tmp_path: Path,
) -> None:
    for name in MARKED:
        shutil.copytree(FIXTURES / name, tmp_path / name)
    lint(tmp_path, "--fix", "--unsafe-fixes")
    repaired = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    for path, source in repaired.items():
        compile(source, path, "exec")
    assert lint(tmp_path, "--fix", "--unsafe-fixes") == (0, set())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.py")} == repaired


def test_the_repaired_program_trains_on_the_cpu_with_plain_gloo(tmp_path: Path) -> None:
    main = FIXTURES / "article" / "3-repaired" / "main.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    result = subprocess.run(
        [*torchrun, str(main), "--cpu", "--epochs=2"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "resumed from digits.pt after epoch 1" in result.stdout
    assert "parameters equal on 2 of 2 ranks" in result.stdout
    accuracy = re.findall(r"accuracy ([\d.]+)%", result.stdout)
    assert len(accuracy) == 2
    assert float(accuracy[-1]) > 75
