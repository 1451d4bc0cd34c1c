"""Which programs there are: the scripts given, and those in the folders given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint.sources import Unreadable, read

# What a file of a distributed program has in it, in one way or another. The rest is not parsed
# unless a program imports it.
_DISTRIBUTED = re.compile(
    rb"DistributedDataParallel|init_process_group|device_ids|fully_shard|FullyShardedDataParallel"
    rb"|init_device_mesh|accelerat|lightning|fabric|deepspeed|horovod|mmengine|mmcv|detectron2"
    rb"|ignite|device_map|torch\.distributed|nccl|(?i:local_?rank)"
)
_FRAMEWORK = re.compile(rb"\b(?:torch|lightning|transformers|accelerate|deepspeed|detectron2|mmengine)\b")
_RUNS = re.compile(rb"__main__|^(?![\s#@'\")\]}]|def |class |import |from |async |if |try|except|else|with )[\w.]+.*[(=]", re.M)
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "site-packages", ".git", ".hg", ".tox", ".nox", ".venv", "venv"}
)


@dataclass
class Candidates:
    """entries: scripts to run; files: how many Python files were looked at; asked: the files
    whose findings are wanted, None for all; skipped: files that could not be read."""

    entries: list[Path] = field(default_factory=list)
    files: int = 0
    asked: set[Path] | None = None
    skipped: list[tuple[Path, str]] = field(default_factory=list)


def candidates(paths: Iterable[Path]) -> Candidates:
    """Raises DdpdoctorError for a path that is not there or holds no Python file."""
    found = Candidates()
    for path in paths:
        if path.is_dir():
            _folder(path, found)
        elif path.is_file():
            found.files += 1
            found.entries.append(path)
        else:
            raise DdpdoctorError(f"{path}: no such file or folder")
    found.entries = list(dict.fromkeys(found.entries))
    return found


def _folder(folder: Path, found: Candidates) -> None:
    files = list(python_files(folder))
    if not files:
        raise DdpdoctorError(f"{folder}: no Python file in this folder")
    found.files += len(files)
    data: dict[Path, bytes] = {}
    for file in files:
        try:
            content = read(file)
        except Unreadable as problem:
            found.skipped.append((file, str(problem)))
            continue
        if _FRAMEWORK.search(content):
            data[file] = content
    found.entries.extend(entries_among(data))


def python_files(folder: Path) -> Iterator[Path]:
    """Every .py file below a folder, in order, without following links."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(root, name)


def entries_among(data: dict[Path, bytes]) -> list[Path]:
    """The files that can start a distributed program: they run something, and they are
    distributed themselves or import, at whatever distance, a file that is."""
    distributed = {file for file, content in data.items() if _DISTRIBUTED.search(content)}
    reached = set(distributed)
    names = {_name(file) for file in reached}
    changed = True
    while changed and names:
        pattern = re.compile(
            rb"^\s*(?:from|import)\s[^\n]*\b(?:" + b"|".join(map(re.escape, sorted(names))) + rb")\b",
            re.M,
        )
        new = {f for f, content in data.items() if f not in reached and pattern.search(content)}
        reached |= new
        names = {_name(file) for file in new}
        changed = bool(new)
    return [file for file, content in data.items() if file in reached and _RUNS.search(content)]


def _name(file: Path) -> bytes:
    stem = file.parent.name if file.name == "__init__.py" else file.stem
    return stem.encode("utf-8", "surrogateescape")


