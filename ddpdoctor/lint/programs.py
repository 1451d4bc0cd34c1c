"""Which programs there are: the scripts given, those in the folders given, and those that use the
modules given. Found from the bytes alone: most files are never parsed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint.apis import Apis
from ddpdoctor.lint.console_scripts import console_scripts
from ddpdoctor.lint.importing import Imports
from ddpdoctor.lint.project import is_project, project_root
from ddpdoctor.lint.scan import Scan
from ddpdoctor.lint.sources import Unreadable, read

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


@dataclass
class Candidates:
    """entries: scripts whose every finding is wanted; around: scripts that use the modules asked
    for, whose findings elsewhere are not wanted; asked: the real paths of these modules.

    files: the absolute paths of the Python files that were looked at; skipped: those that could
    not be read, and why.
    """

    entries: list[Path] = field(default_factory=list)
    around: list[Path] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    skipped: dict[Path, str] = field(default_factory=dict)


def candidates(
    paths: Iterable[Path], apis: Apis, scan: Scan, excludes: Callable[[Path], bool]
) -> Candidates:
    """excludes: whether a file in a folder is to be left out.

    Raises DdpdoctorError for a path that is not there or a folder without a Python file.
    """
    found = Candidates()
    for path in dict.fromkeys(paths):
        if os.path.isdir(path):  # not Path.is_dir(), which raises without permission
            found.entries += _in_folder(path, apis, scan, excludes, found)
        elif os.path.lexists(path):
            found.files.add(str(path.absolute()))
            found.entries.append(path)
            if not _is_script(path, scan) and not _is_command(path):
                found.asked.add(os.path.realpath(path))
        else:
            raise DdpdoctorError(f"{path}: no such file or folder")
    found.entries = _each_once(found.entries)
    found.around = _around(found, apis, scan, excludes)
    return found


def _each_once(paths: list[Path]) -> list[Path]:
    """Of the names of one file, through links, the first."""
    once: dict[str, Path] = {}
    for path in paths:
        once.setdefault(os.path.realpath(path), path)
    return list(once.values())


def _is_script(path: Path, scan: Scan) -> bool:
    try:
        return scan.runs(str(path.absolute()))
    except Unreadable:
        return True  # it is said once, when the script is judged


def _is_command(path: Path) -> bool:
    return os.path.realpath(path) in console_scripts(project_root(path.absolute()), _content)


def _content(path: Path) -> bytes | None:
    try:
        return read(path)
    except Unreadable:
        return None


def _in_folder(
    folder: Path,
    apis: Apis,
    scan: Scan,
    excludes: Callable[[Path], bool],
    found: Candidates,
    *,
    deep: bool = True,
) -> list[Path]:
    scripts: list[str] = []
    is_empty = True
    commands = console_scripts(project_root(folder.absolute() / "file"), _content)
    for file in python_files(folder, found.skipped, deep=deep):
        is_empty = False
        if excludes(Path(file)):
            continue
        found.files.add(file)
        try:
            runs = scan.runs(file)
        except Unreadable as problem:
            found.skipped[_as_given(folder, file)] = str(problem)
            continue
        if runs or (commands and os.path.realpath(file) in commands):
            scripts.append(file)
    if is_empty:
        reason = found.skipped.get(folder, "no Python file in this folder")
        raise DdpdoctorError(f"{folder}: {reason}")
    imports = Imports(apis.libraries, scan)
    return [_as_given(folder, script) for script in scripts if imports.lead_to_group(script)]


def _as_given(folder: Path, file: str) -> Path:
    """The path of a file below a folder, absolute only where the folder's is."""
    return Path(folder, os.path.relpath(file, folder.absolute()))


def _around(
    found: Candidates, apis: Apis, scan: Scan, excludes: Callable[[Path], bool]
) -> list[Path]:
    """The programs of the projects around the modules asked for that import any of them."""
    programs: list[Path] = []
    for root in dict.fromkeys(project_root(Path(path)) for path in sorted(found.asked)):
        looked_at = Candidates()
        try:
            # Without a project's marks, what lies further below need not belong to it.
            entries = _in_folder(root, apis, scan, excludes, looked_at, deep=is_project(root))
        except DdpdoctorError:
            continue
        imports = Imports(apis.libraries, scan)
        programs += [
            entry
            for entry in entries
            if os.path.realpath(entry) not in found.asked and imports.reach(str(entry), found.asked)
        ]
    return [path for path in programs if path not in found.entries]


def python_files(folder: Path, skipped: dict[Path, str], *, deep: bool = True) -> Iterator[str]:
    """The absolute path of every .py file below a folder, in order, without following links to
    folders.

    deep: not only those in the folder itself. Folders that cannot be listed are added to skipped,
    with the reason.
    """

    def unlisted(error: OSError) -> None:
        skipped[_as_given(folder, error.filename)] = error.strerror or str(error)

    for root, folders, names in os.walk(str(folder.absolute()), onerror=unlisted):
        folders[:] = sorted(
            name
            for name in folders
            if deep and name not in _SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(root, name)
