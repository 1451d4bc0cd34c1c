"""What is remembered of files that are not programs, and when they are read again."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.config import Config
from ddpdoctor.lint import Linted, lint, scan

MAIN = "from jobs import start\nif __name__ == '__main__':\n    start()\n"
JOBS = """\
import torch
import torch.distributed as dist

def start():
    dist.init_process_group("nccl")
    x = torch.zeros(1).cuda()
    dist.all_reduce(x)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(scan, "SETTLED", -1)
    return tmp_path / "cache" / "ddpdoctor"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN)
    (folder / "jobs.py").write_text(JOBS)
    (folder / "other.py").write_text("def add(a, b):\n    return a + b\n")
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read to see what they are."""
    names: list[str] = []
    content_of = scan.read

    def spy(path: Path) -> bytes:
        names.append(path.name)
        return content_of(path)

    monkeypatch.setattr(scan, "read", spy)
    return names


def run(folder: Path, config: Config | None = None) -> Linted:
    return lint([folder], config, cached=True)


def kept(cache: Path) -> list[Path]:
    return list(cache.glob("scan-*.json"))


def test_no_file_is_read_again(project: Path, cache: Path, read: list[str]) -> None:
    first = run(project)
    assert first.findings
    assert sorted(read) == ["jobs.py", "main.py", "other.py"]
    read.clear()
    assert run(project) == first
    assert read == []


def test_without_the_cache_every_file_is_read(project: Path, cache: Path, read: list[str]) -> None:
    run(project)
    read.clear()
    lint([project])
    assert sorted(read) == ["jobs.py", "main.py", "other.py"]


def test_a_changed_file_alone_is_read(project: Path, cache: Path, read: list[str]) -> None:
    run(project)
    read.clear()
    (project / "other.py").write_text(MAIN)
    assert run(project) == lint([project])
    assert set(read) >= {"other.py"}
    assert run(project).programs == 2


@pytest.mark.parametrize("name", ["main.py", "jobs.py"])
def test_a_change_of_the_same_size_at_the_same_time_is_seen(
    project: Path, cache: Path, name: str
) -> None:
    file = project / name
    assert run(project).programs == 1
    before = file.stat()
    time.sleep(0.05)  # longer than a tick of the file system's clock
    file.write_text("#" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert run(project).programs == 0


def test_files_that_may_change_within_a_tick_of_the_clock_are_read_again(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "SETTLED", 3600 * 10**9)
    run(project)
    assert kept(cache) == []


def test_a_file_that_is_gone_is_forgotten(project: Path, cache: Path) -> None:
    run(project)
    (project / "jobs.py").unlink()
    (project / "new.py").touch()
    assert run(project).programs == 0
    (file,) = kept(cache)
    names = {Path(path).name for path in json.loads(file.read_bytes())["files"]}
    assert names == {"main.py", "new.py", "other.py"}


def test_tables_count(project: Path, cache: Path) -> None:
    (project / "jobs.py").write_text("import ours\n\ndef start():\n    ours.begin()\n")
    assert run(project).programs == 0
    table = project.parent / "ours.toml"
    table.write_text('libraries = ["ours"]\n[calls]\n"ours.begin" = { does = "group" }\n')
    assert run(project, replace(Config(), apis=(table,))).programs == 1


def test_a_damaged_scan_is_not_believed(project: Path, cache: Path) -> None:
    first = run(project)
    (file,) = kept(cache)
    whole = json.loads(file.read_bytes())
    path, facts = next(iter(whole["files"].items()))
    wrong: list[object] = [None, 3, [], {}, {"settings": whole["settings"]}]
    for part in (3, [], [[1], True], [facts[0], 3, 3, 3], [*facts[:3], [[0, None, []]]]):
        wrong.append({**whole, "files": {**whole["files"], path: part}})
    for content in wrong:
        file.write_text(json.dumps(content))
        assert run(project) == first
    file.write_bytes(b"[" * 100_000)
    assert run(project) == first
