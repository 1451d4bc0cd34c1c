"""The user's project with lint's repairs, in a copy: the original is never written to."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.probe.launch import Job

_MOST_ENTRIES = 100_000
_PROJECT_MARKS = ("pyproject.toml", "setup.py", ".git")
# Never programs to repair, and often large.
_NOT_COPIED = (".git", ".hg", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox")


def repaired_copy(job: Job, script: Path, folder: Path) -> tuple[Job, str]:
    """The job on a repaired copy of the script's project in that folder, and what was changed.

    The change is a unified diff, "" where lint has no repair. Python files are copied, everything
    else (data, checkpoints) is linked to, so that a project of any size is copied at once.
    """
    from ddpdoctor.lint import fix

    root = project_of(script)
    copy = folder / root.name
    _mirror(root, copy, [_MOST_ENTRIES])
    fix([copy / script.resolve().relative_to(root)], unsafe=True)
    here = Path.cwd().resolve()
    command = tuple(
        str(copy / script.resolve().relative_to(root)) if word == str(script) else word
        for word in job.command
    )
    # What is installed in place (pip install -e) would be imported from the original.
    paths = tuple(
        str(copy / Path(path).resolve().relative_to(root))
        for path in (*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep))
        if path and Path(path).resolve().is_relative_to(root)
    )
    work = copy / here.relative_to(root) if here.is_relative_to(root) else here
    return replace(job, command=command, folder=work, python_path=paths), _diff(root, copy)


def project_of(script: Path) -> Path:
    """The nearest folder above the script that marks a project, else the script's own folder."""
    folder = script.resolve().parent
    for above in (folder, *folder.parents):
        if any((above / mark).exists() for mark in _PROJECT_MARKS):
            return above
    return folder


def _mirror(source: Path, target: Path, left: list[int]) -> bool:
    """Copy the Python files below source and link to the rest; whether there was any.

    A folder with Python files anywhere below it is never a link: a repair would follow that to
    the original. left: how many entries may still be looked at.
    """
    target.mkdir(parents=True)
    found = False
    for entry in os.scandir(source):
        left[0] -= 1
        if left[0] < 0:
            raise DdpdoctorError(
                f"more than {_MOST_ENTRIES} files around the script; --corrected copies the "
                "project, so put it in a folder of its own, with a pyproject.toml"
            )
        place = target / entry.name
        if entry.name == "__pycache__":
            continue
        if entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_COPIED:
            if os.access(entry.path, os.R_OK | os.X_OK) and _mirror(Path(entry.path), place, left):
                found = True
                continue
            shutil.rmtree(place, ignore_errors=True)  # links at most
        elif entry.name.endswith(".py") and entry.is_file():
            shutil.copy2(entry.path, place)
            found = True
            continue
        place.symlink_to(os.path.realpath(entry.path))
    return found


def _diff(root: Path, copy: Path) -> str:
    lines: list[str] = []
    for changed in sorted(copy.rglob("*.py")):
        original = root / changed.relative_to(copy)
        before, after = (_lines(path) for path in (original, changed))
        if before != after:
            name = str(changed.relative_to(copy))
            lines += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(lines)


def _lines(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", "replace")
    return [line if line.endswith("\n") else f"{line}\n" for line in text.splitlines(True)]
