"""The article's program and the elastic toy: what is marked is found, and repaired it is clean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from ddpdoctor.findings import Finding
from ddpdoctor.lint import fix, lint, repair
from ddpdoctor.resources import resource

ENTRIES = {
    "article/1-first-written": "main.py",
    "article/2-device-id": "main.py",
    "article/3-repaired": "main.py",
    "elastic_toy/bad": "elastic_toy.py",
    "elastic_toy/good": "elastic_toy.py",
}
every_program = pytest.mark.parametrize("name", ENTRIES)


def folder_of(name: str) -> Path:
    return resource(f"fixtures/{name}")


def markers(folder: Path) -> list[tuple[str, int, str]]:
    """(file, row, code) of each `# DDP101: ...` in a folder's files."""
    return sorted(
        (path.name, row, code)
        for path in folder.glob("*.py")
        for row, line in enumerate(path.read_text().splitlines(), 1)
        for code in re.findall(r"# (DDP\d{3}):", line)
    )


def places(findings: Iterable[Finding]) -> list[tuple[str, int, str]]:
    found = []
    for finding in findings:
        assert finding.filename is not None
        assert finding.location is not None
        found.append((Path(finding.filename).name, finding.location.row, finding.code))
    return sorted(found)


@every_program
def test_lint_finds_what_is_marked_and_nothing_else(name: str) -> None:
    folder = folder_of(name)
    linted = lint([folder / ENTRIES[name]])
    assert places(linted.findings) == markers(folder)
    assert linted.programs == 1
    assert linted.skipped == ()


@every_program
def test_the_whole_folder_is_judged_as_the_program_is(name: str) -> None:
    assert places(lint([folder_of(name)]).findings) == markers(folder_of(name))


def test_the_repaired_programs_have_no_marker() -> None:
    bare = [name for name in ENTRIES if not markers(folder_of(name))]
    assert bare == ["article/3-repaired", "elastic_toy/good"]


@pytest.mark.parametrize("name", [name for name in ENTRIES if markers(folder_of(name))])
def test_it_is_clean_after_its_repairs(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(name), copy)
    repaired = fix([copy / ENTRIES[name]], unsafe=True)
    assert repaired.linted.findings == ()
    assert repaired.repaired == len(markers(copy))
    for path in copy.glob("*.py"):
        compile(path.read_bytes(), str(path), "exec")
    assert repair([copy / ENTRIES[name]], unsafe=True).after == {}


def test_one_line_repairs_every_placement_of_the_article(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of("article/1-first-written"), copy)
    before = (copy / "main.py").read_text().splitlines()
    fix([copy / "main.py"])
    after = (copy / "main.py").read_text().splitlines()
    assert [line for line in after if line not in before] == [
        "    torch.cuda.set_device(config.LOCAL_RANK)"
    ]
    assert len(after) == len(before) + 1
    assert (copy / "model.py").read_bytes() == (
        folder_of("article/1-first-written") / "model.py"
    ).read_bytes()
