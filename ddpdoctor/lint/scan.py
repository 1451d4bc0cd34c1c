"""What the bytes of files say before they are parsed, remembered while a file stays as it is.

A second run over a tree reads none of its files: their size, times and inode tell that they are
the same. The time of the last status change is among them, and no program can set that back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ddpdoctor.lint.cache import digest, write
from ddpdoctor.lint.importing import Import, import_statements
from ddpdoctor.lint.signs import Signs
from ddpdoctor.lint.sources import Unreadable, read

# A file may change once more within one tick of a file system's clock (2 s on FAT), unseen.
SETTLED = 2_000_000_000  # ns

# Where in what is remembered of a file each answer stands, after the file's state.
_RUNS, _OPENS_GROUP, _IMPORTS = 1, 2, 3


class Scan:
    """kept: the file in which it is remembered, None to remember nothing; settings: what the
    answers rest on besides the files."""

    def __init__(self, signs: Signs, kept: Path | None = None, settings: str = "") -> None:
        self._signs = signs
        self._kept = kept
        self._settings = settings
        self._old = {} if kept is None else _load(kept, settings)
        self._facts: dict[str, list[Any]] = {}
        self._data: dict[str, bytes] = {}
        self._changed = False

    def runs(self, path: str) -> bool:
        """Whether a file does something when it is run as a script. Raises Unreadable."""
        facts = self._facts_of(path)
        if facts[_RUNS] is None:
            self._note(facts, _RUNS, self._signs.runs(self._read(path)))
        return bool(facts[_RUNS])

    def opens_group(self, path: str) -> bool:
        """Whether a file may start a job of several ranks; one that cannot be read does not."""
        facts = self._facts_of(path)
        if facts[_OPENS_GROUP] is None:
            self._note(facts, _OPENS_GROUP, self._signs.opens_group(self._read_or_empty(path)))
        return bool(facts[_OPENS_GROUP])

    def imports(self, path: str) -> list[Import]:
        """The import statements of a file; none of one that cannot be read."""
        facts = self._facts_of(path)
        if facts[_IMPORTS] is None:
            found = import_statements(self._read_or_empty(path))
            self._note(facts, _IMPORTS, [(level, name, [*names]) for level, name, names in found])
        return [(level, name, frozenset(names)) for level, name, names in facts[_IMPORTS]]

    def save(self) -> None:
        """Remembers the answers for the next run, if any is new."""
        if self._kept is None or not self._changed:
            return
        now = time.time_ns()
        settled = {
            path: facts
            for path, facts in self._facts.items()
            if facts[0] is not None and now - max(facts[0][1:3]) > SETTLED
        }
        if not settled:
            return
        try:
            text = json.dumps({"settings": self._settings, "files": settled})
            write(self._kept, text.encode())
        except (OSError, ValueError):
            self._kept = None  # it cannot be written: the next run reads the files again

    def _facts_of(self, path: str) -> list[Any]:
        facts = self._facts.get(path)
        if facts is None:
            state = _state(path)
            facts = self._old.get(path)
            if facts is None or state is None or facts[0] != state:
                facts = [state, None, None, None]
            self._facts[path] = facts
        return facts

    def _note(self, facts: list[Any], what: int, answer: object) -> None:
        facts[what] = answer
        self._changed = True

    def _read_or_empty(self, path: str) -> bytes:
        try:
            return self._read(path)
        except Unreadable:
            return b""

    def _read(self, path: str) -> bytes:
        data = self._data.get(path)
        if data is None:
            data = self._data[path] = read(Path(path))
        return data


def scan_file(folder: Path, paths: Iterable[Path]) -> Path:
    """Where in a cache folder the scan of these files and folders is kept."""
    asked = "\0".join(str(path.absolute()) for path in paths)
    return folder / f"scan-{digest(os.fsencode(asked))}.json"


def _state(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _load(kept: Path, settings: str) -> dict[str, list[Any]]:
    try:
        data = json.loads(kept.read_bytes())
        if data["settings"] != settings:
            return {}
        files: dict[str, list[Any]] = data["files"]
        return {path: facts for path, facts in files.items() if _sound(facts)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # not there, or damaged


def _sound(facts: list[Any]) -> bool:
    _, runs, opens_group, imports = facts
    return (
        (runs is None or isinstance(runs, bool))
        and (opens_group is None or isinstance(opens_group, bool))
        and (imports is None or all(map(_is_import, imports)))
    )


def _is_import(statement: list[Any]) -> bool:
    level, name, names = statement
    return (
        isinstance(level, int)
        and isinstance(name, str)
        and isinstance(names, list)
        and all(isinstance(taken, str) for taken in names)
    )
