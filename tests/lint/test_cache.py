"""What is remembered of a program, and when it is forgotten."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.config import Config
from ddpdoctor.lint import Linted, analysis, lint

MAIN = """\
import json
import torch
import torch.distributed as dist
from net import Net
settings = json.load(open("settings.json"))
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
net = Net().to(settings["device"])
net = torch.nn.parallel.DistributedDataParallel(net)
"""
NET = "import torch\nfrom options import width\n\nclass Net(torch.nn.Module):\n    pass\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "ddpdoctor"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text(MAIN)
    (folder / "net.py").write_text(NET)
    (folder / "options.py").write_text("width = 3\n")
    (folder / "settings.json").write_text('{"device": "cuda:0"}')
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scripts that were judged anew."""
    names: list[str] = []
    judge = analysis.judge

    def noted(entry, *rest):  # type: ignore[no-untyped-def]
        names.append(entry.path.name)
        return judge(entry, *rest)

    monkeypatch.setattr(analysis, "judge", noted)
    return names


def run(folder: Path, config: Config | None = None) -> Linted:
    return lint([folder], config, cached=True)


def test_what_is_remembered_is_the_same_to_the_last_detail(
    project: Path, judged: list[str]
) -> None:
    (project / "net.py").write_text(NET + "    def forward(self, x):\n        return x.cuda(0)\n")
    first, second = run(project), run(project)
    assert second == first
    assert first.findings
    assert any(finding.fix for finding in first.findings)
    assert judged == ["main.py"]


def edit(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(text)

    return change


def add_module_in_src(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "json5.py").touch()


def move_the_edge(folder: Path) -> None:
    (folder / "pyproject.toml").rename(folder.parent / "pyproject.toml")


CHANGES: dict[str, Callable[[Path], None]] = {
    "the script": edit("main.py", MAIN + "\n"),
    "an imported file": edit("net.py", NET + "\n"),
    "a file imported by that": edit("options.py", "width = 4\n"),
    "a data file": edit("settings.json", '{"device": "cuda:1"}'),
    "a file that is gone": lambda folder: (folder / "options.py").unlink(),
    "a new file that an import means now": edit("torch_extra.py", ""),
    "a new file in a new folder that an import means now": add_module_in_src,
    "the edge of the project": move_the_edge,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_is_judged_anew_after_a_change_of(
    project: Path, judged: list[str], name: str
) -> None:
    (project / "options.py").write_text("import torch_extra, json5\nwidth = 3\n")
    run(project)
    run(project)
    assert judged == ["main.py"]
    CHANGES[name](project)
    cached = run(project)
    assert judged == ["main.py"] * 2
    assert cached == lint([project])


TRAINER = """\
import torch
from transformers import Trainer, TrainingArguments
model = torch.nn.Linear(2, 2).to("cuda:0")
Trainer(model, TrainingArguments("out")).train()
"""
LAUNCH = "torchrun --nproc_per_node 4 main.py\n"


@pytest.mark.parametrize("name", ["run.sh", "README.md", "scripts/sft/run.sh"])
def test_the_command_lines_beside_a_program_count(
    project: Path, judged: list[str], name: str
) -> None:
    (project / "main.py").write_text(TRAINER)
    (project / "accelerate.yaml").write_text("num_processes: 4\n")
    line = project / name
    line.parent.mkdir(parents=True, exist_ok=True)

    def found() -> set[str]:
        linted = run(project)
        before = len(judged)
        assert run(project) == linted
        assert len(judged) == before
        return codes(linted)

    assert found() == set()
    line.write_text(LAUNCH)
    assert found() == {"DDP103"}
    line.write_text(LAUNCH.replace("4", "1"))
    assert found() == set()
    line.write_text("accelerate launch --config_file accelerate.yaml main.py\n")
    assert found() == {"DDP103"}
    (project / "accelerate.yaml").write_text("num_processes: 1\n")
    assert found() == set()
    line.unlink()
    assert found() == set()


def test_a_change_of_the_same_size_at_the_same_time_is_seen(project: Path) -> None:
    settings = project / "settings.json"
    before = settings.stat()
    assert "DDP103" in codes(run(project))
    settings.write_text('{"device": "cuda"  }')
    os.utime(settings, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert settings.stat().st_size == before.st_size
    assert "DDP103" not in codes(run(project))


def test_other_files_of_the_folder_do_not_matter(project: Path, judged: list[str]) -> None:
    run(project)
    (project / "unrelated.py").write_text("x = 1\n")
    run(project)
    assert judged == ["main.py"]


def test_settings_and_tables_count(project: Path, judged: list[str]) -> None:
    run(project)
    assert codes(run(project, replace(Config(), select=("DDP2",)))) <= {"DDP201", "DDP203"}
    table = project / "ours.toml"
    table.write_text('[calls]\n"options.width" = { does = "nothing" }\n')
    run(project, replace(Config(), apis=(table,)))
    table.write_text('[calls]\n"options.height" = { does = "nothing" }\n')
    run(project, replace(Config(), apis=(table,)))
    assert judged == ["main.py"] * 4


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_cache_is_not_believed(
    project: Path, cache: Path, judged: list[str], damage: bytes
) -> None:
    first = run(project)
    (file,) = judgements(cache)
    file.write_bytes(damage)
    assert run(project) == first
    assert run(project) == first
    assert judged == ["main.py"] * 2


def test_parts_of_a_damaged_cache_are_not_believed(
    project: Path, cache: Path, judged: list[str]
) -> None:
    first = run(project)
    (file,) = judgements(cache)
    whole = json.loads(file.read_bytes())
    for key in whole:
        for wrong in (None, 3, [3], {"a": 3}, [[["a"]]]):
            file.write_text(json.dumps({**whole, key: wrong}))
            assert run(project) == first
    assert len(judged) == 1 + 5 * len(whole)


@pytest.mark.parametrize("place", ["a file", "a link to nowhere", "below a file"])
def test_a_cache_that_cannot_be_written_breaks_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/proc/nowhere")
    home = {
        "a file": tmp_path / "file",
        "a link to nowhere": tmp_path / "link",
        "below a file": tmp_path / "file" / "cache",
    }[place]
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    assert run(project) == run(project) == lint([project])


def test_nothing_is_left_half_written(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert run(project).findings
    assert list(cache.iterdir()) == []


def test_the_command_uses_it_unless_told_otherwise(project: Path, cache: Path) -> None:
    def command(*options: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "ddpdoctor", "lint", *options, "."],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 1, run.stderr
        return run.stdout

    plain = command("--no-cache")
    assert not cache.exists()
    assert command() == command() == plain
    (file,) = judgements(cache)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_run_from_the_cache_does_without_libcst(project: Path, cache: Path) -> None:
    def imported() -> set[str]:
        run = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "ddpdoctor", "lint", "."],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 1, run.stderr
        return {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}

    assert "libcst" in imported()
    assert "libcst" not in imported()


def test_repairs_in_memory_are_not_remembered(project: Path, cache: Path) -> None:
    run(project)
    before = [path.read_bytes() for path in judgements(cache)]
    subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "lint", "--diff", "--unsafe-fixes", "."],
        cwd=project,
        capture_output=True,
        timeout=60,
    )
    assert [path.read_bytes() for path in judgements(cache)] == before


def judgements(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if not path.name.startswith("scan-")]


def codes(linted: Linted) -> set[str]:
    return {finding.code for finding in linted.findings}
