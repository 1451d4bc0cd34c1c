"""Programs that start by a command of the installed project, not by a main guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.lint import lint

PROGRAM = """\
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda:0")


def other():
    torch.ones(1, device="cuda:1")
"""

SETTINGS = {
    "project": ("pyproject.toml", '[project.scripts]\ntrain = "pkg.train:main"\n'),
    "poetry": ("pyproject.toml", '[tool.poetry.scripts]\ntrain = "pkg.train:main"\n'),
    "setup": (
        "setup.cfg",
        "[options.entry_points]\nconsole_scripts =\n    train = pkg.train:main [extra]\n",
    ),
    "setup.py": (
        "setup.py",
        "from setuptools import setup\n"
        'setup(entry_points={"console_scripts": ["train = pkg.train:main"]})\n',
    ),
    "setup.py, kept apart": (
        "setup.py",
        'ENTRY_POINTS = {"console_scripts": """\n    train=pkg.train:main\n"""}\n'
        "setup(entry_points=ENTRY_POINTS)\n",
    ),
}


def project(folder: Path, name: str, text: str, *, source: str = "") -> Path:
    package = folder / source / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "train.py").write_text(PROGRAM)
    (folder / name).write_text(text)
    return package / "train.py"


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("source", ["", "src"])
def test_a_command_of_the_project_is_a_program(tmp_path: Path, settings: str, source: str) -> None:
    script = project(tmp_path, *SETTINGS[settings], source=source)
    for given in (script, tmp_path):
        linted = lint([given], cached=False)
        assert linted.programs == 1
        assert [(f.code, f.location and f.location.row) for f in linted.findings] == [("DDP103", 7)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project.scripts]\n",
        '[project.scripts]\ntrain = "pkg.absent:main"\n',
        '[project.scripts]\ntrain = "pkg.train"\n',
        '[project.scripts]\ntrain = "pkg.train:absent"\n',
        '[project]\nscripts = "pkg.train:main"\n',
        "scripts = [\n",
    ],
)
def test_settings_that_name_no_function_start_nothing(tmp_path: Path, text: str) -> None:
    project(tmp_path, "pyproject.toml", text)
    assert lint([tmp_path], cached=False).programs == 0


@pytest.mark.parametrize(
    "text",
    [
        'SCRIPTS = {"plugins": ["train = pkg.train:main"]}  # no console_scripts\n',
        'SCRIPTS = {"console_scripts": [f"train = {module}:main"]}\n',
        'SCRIPTS = {"console_scripts": [\n',
    ],
)
def test_a_setup_that_names_no_function_starts_nothing(tmp_path: Path, text: str) -> None:
    project(tmp_path, "setup.py", text)
    assert lint([tmp_path], cached=False).programs == 0


def test_a_changed_setting_is_seen_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    script = project(folder, "pyproject.toml", "")
    assert not lint([script]).findings
    (folder / "pyproject.toml").write_text(SETTINGS["project"][1])
    assert lint([script]).findings
