"""The user's project with lint's repairs, in a copy: the original is never written to."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ddpdoctor.probe.launch import Job
from ddpdoctor.report.diff import unified_diff
from ddpdoctor.report.terminal import Screen

_PROJECT_MARKS = ("pyproject.toml", "setup.py", ".git")


def repaired_copy(job: Job, script: Path, folder: Path) -> tuple[Job, str] | None:
    """The job on a repaired copy of the script's project in that folder, and what was changed.

    The change is a unified diff. None where lint has no repair. Everything that is not changed
    (other modules, data, checkpoints) is linked to, so that a project of any size is ready at once.
    """
    from ddpdoctor.config import find_config
    from ddpdoctor.lint import repair

    repaired = repair([script], find_config([script]), unsafe=True)
    if not repaired.after:
        return None
    script = script.resolve()
    # Python looks for modules beside the script's real file: a link to it would not do.
    changed = {script: script.read_bytes(), **repaired.after}
    root = Path(os.path.commonpath([_project_of(script), *changed]))
    copy = folder / root.name
    _overlay(root, copy, changed)
    here = Path.cwd().resolve()
    moved = replace(
        job,
        command=tuple(
            str(copy / script.relative_to(root)) if _same_file(word, script) else word
            for word in job.command
        ),
        folder=_moved(here, root, copy) or here,
        # What is installed in place (pip install -e) would be imported from the original.
        python_path=tuple(
            str(there)
            for path in (*sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep))
            if path and (there := _moved(Path(path).resolve(), root, copy))
        ),
    )
    diff = "".join(
        unified_diff(
            str(path.relative_to(root)), _text(repaired.before[path]), _text(after), Screen()
        )
        for path, after in sorted(repaired.after.items())
    )
    return moved, diff


def _project_of(script: Path) -> Path:
    """The nearest folder above the script that marks a project, else the script's own folder."""
    for above in script.parents:
        if any((above / mark).exists() for mark in _PROJECT_MARKS):
            return above
    return script.parent


def _overlay(source: Path, target: Path, changed: Mapping[Path, bytes]) -> None:
    """A folder like source with some files' new contents, and links for all the rest."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        place = target / entry.name
        if entry in changed:
            place.write_bytes(changed[entry])
            shutil.copymode(entry, place)
        elif any(path.is_relative_to(entry) for path in changed):
            _overlay(entry, place, changed)
        elif entry.name != "__pycache__":  # would be written to
            place.symlink_to(entry)


def _moved(path: Path, root: Path, copy: Path) -> Path | None:
    return copy / path.relative_to(root) if path.is_relative_to(root) else None


def _same_file(word: str, script: Path) -> bool:
    return word.endswith(".py") and Path(word).resolve() == script


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
