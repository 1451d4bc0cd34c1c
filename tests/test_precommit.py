"""The pre-commit hook, installed and run by the real pre-commit from a commit of this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ARTICLE = ROOT / "fixtures" / "article"
# What a commit of the tree holds for the hook; the rest would only make the copy slower.
SHIPPED = ("ddpdoctor", "rules", "fixtures", "pyproject.toml", "README.md", "LICENSE")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository that holds this tree in one commit, and the commit."""
    repository = tmp_path_factory.mktemp("hooks")
    for name in (*SHIPPED, ".pre-commit-hooks.yaml"):
        source = ROOT / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, repository / name, ignore=skip)
        else:
            shutil.copy(source, repository / name)
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "the tool")
    return repository, git(repository, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def pre_commit(hooks: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the hook in a user's repository. The hook is installed once, in a store of its own."""
    store = tmp_path_factory.mktemp("store")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(store)}

    def run(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        repository.joinpath(".pre-commit-config.yaml").write_text(
            f"repos:\n- repo: {hooks[0]}\n  rev: {hooks[1]}\n  hooks:\n  - id: ddpdoctor-lint\n"
        )
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", *arguments],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
        )

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository that holds the article's program, repaired."""
    shutil.copytree(ARTICLE / "3-repaired", tmp_path / "digits")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    return tmp_path


def test_a_right_program_passes(project: Path, pre_commit: Run) -> None:
    result = pre_commit(project, "--all-files")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Passed" in result.stdout


def test_a_changed_model_file_is_judged_in_the_program_around_it(
    project: Path, pre_commit: Run
) -> None:
    model = project / "digits" / "model.py"
    model.write_text(model.read_text().replace(".to(device, non_blocking=True)", '.to("cuda:0")'))
    git(project, "add", "digits/model.py")
    result = pre_commit(project)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "DDP103" in result.stdout
    assert "digits/model.py" in result.stdout


def test_a_commit_without_python_skips_the_hook(project: Path, pre_commit: Run) -> None:
    (project / "notes.txt").write_text("device = cuda:0\n")
    git(project, "add", "notes.txt")
    result = pre_commit(project)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Skipped" in result.stdout
