"""Remembers what came of a program until a file that it consists of changes.

A judgement is kept under the user's cache folder, one file a script, with the digests of all
that it rests on. Whatever is wrong with the cache, the program is judged anew.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

try:
    from _blake2 import blake2b  # hashlib's own, without OpenSSL, which takes as long as json
except ImportError:
    from hashlib import blake2b

import ddpdoctor
from ddpdoctor.findings import (
    Applicability,
    Edit,
    Finding,
    Fix,
    Location,
    Related,
    Severity,
)
from ddpdoctor.lint.outcome import Evidence, Judged, Outcome
from ddpdoctor.lint.project import find_import, script_roots
from ddpdoctor.lint.sources import Unreadable, read
from ddpdoctor.resources import resource


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


class Cache:
    """folder: where judgements are kept, None to keep none. settings: what else they rest on."""

    def __init__(self, folder: Path | None, codes: Iterable[str], tables: Iterable[Path]) -> None:
        self._folder = folder
        self.settings = "" if folder is None else _settings(codes, tables)
        self._digests: dict[str, str | None] = {}
        self._searches: dict[tuple[str, tuple[str, ...]], str | None] = {}
        self._listings: dict[str, tuple[str, ...]] = {}

    def load(self, script: Path) -> Outcome | None:
        """What came of a script, if nothing that this rests on has changed since."""
        if self._folder is None:
            return None
        try:
            data = json.loads(self._file(self._folder, script).read_bytes())
            if data["settings"] != self.settings:
                return None
            evidence = Evidence(
                tuple(data["roots"]),
                data["files"],
                tuple((name, tuple(roots), found) for name, roots, found in data["searches"]),
                {folder: tuple(names) for folder, names in data["listings"].items()},
            )
            if not self._holds(evidence, script):
                return None
            return Outcome(_judged(data["judged"]), evidence=evidence)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # not there, or damaged

    def store(self, script: Path, outcome: Outcome) -> None:
        if self._folder is None or outcome.judged is None or outcome.evidence is None:
            return
        judged, evidence = outcome.judged, outcome.evidence
        data = {
            "settings": self.settings,
            "roots": evidence.roots,
            "files": evidence.files,
            "searches": evidence.searches,
            "listings": evidence.listings,
            "judged": {
                "findings": [finding.to_dict() for finding in judged.findings],
                "distributed": judged.distributed,
                "reached": [str(path) for path in judged.reached],
                "problems": [(str(path), problem) for path, problem in judged.problems],
                "exhausted": judged.exhausted,
            },
        }
        try:
            write(self._file(self._folder, script), json.dumps(data).encode())
        except (OSError, ValueError):
            self._folder = None  # it cannot be written: do without for the rest of the run

    def _file(self, folder: Path, script: Path) -> Path:
        name = os.fsencode(script.absolute())
        return folder / f"{digest(name)}.json"

    def _holds(self, evidence: Evidence, script: Path) -> bool:
        return (
            evidence.roots == tuple(map(str, script_roots(script.absolute())))
            and all(self._digest(path) == known for path, known in evidence.files.items())
            and all(self._find(name, roots) == found for name, roots, found in evidence.searches)
            and all(self._list(folder) == names for folder, names in evidence.listings.items())
        )

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            try:
                self._digests[path] = digest(read(Path(path)))
            except Unreadable:
                self._digests[path] = None
        return self._digests[path]

    def _list(self, folder: str) -> tuple[str, ...]:
        from ddpdoctor.lint.launch_lines import launch_files

        if folder not in self._listings:
            self._listings[folder] = launch_files(Path(folder))
        return self._listings[folder]

    def _find(self, name: str, roots: tuple[str, ...]) -> str | None:
        search = (name, roots)
        if search not in self._searches:
            self._searches[search] = find_import(name, map(Path, roots))
        return self._searches[search]


def cache_folder() -> Path | None:
    """Where this user's caches are, by the habits of the system; None where that is not known."""
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        return Path(home, "ddpdoctor")
    try:
        user = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return user / "Library" / "Caches" / "ddpdoctor"
    return user / ".cache" / "ddpdoctor"


def write(path: Path, data: bytes) -> None:
    """All of it or nothing, so that a run that is ended, or a second one, does no harm."""
    import tempfile  # takes longer to import than a judgement to load

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _settings(codes: Iterable[str], tables: Iterable[Path]) -> str:
    """The digest of the tool itself, its tables and the settings."""
    package = Path(ddpdoctor.__file__).parent
    own = [package / "findings.py", *(package / "lint").rglob("*.py")]
    parts = [ddpdoctor.__version__, *codes]
    for path in sorted((*own, *resource("rules/apis").glob("*.toml"), *tables)):
        status = path.stat()
        parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return digest("\n".join(parts).encode("utf-8", "surrogateescape"))


def _judged(data: dict[str, Any]) -> Judged:
    return Judged(
        tuple(map(_finding, data["findings"])),
        data["distributed"],
        tuple(map(Path, data["reached"])),
        tuple((Path(path), problem) for path, problem in data["problems"]),
        data["exhausted"],
    )


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        data["code"],
        data["message"],
        Severity(data["severity"]),
        data["filename"],
        _location(data["location"]),
        _location(data["end_location"]),
        data["behaviour"],
        data["symptom"],
        data["repair"],
        tuple(data["ranks"]),
        tuple(
            Related(place["filename"], Location(**place["location"]), place["message"])
            for place in data["related"]
        ),
        _fix(data["fix"]),
    )


def _location(data: dict[str, int] | None) -> Location | None:
    return None if data is None else Location(**data)


def _fix(data: dict[str, Any] | None) -> Fix | None:
    if data is None:
        return None
    return Fix(
        Applicability(data["applicability"]),
        data["message"],
        tuple(
            Edit(
                edit["filename"],
                Location(**edit["location"]),
                Location(**edit["end_location"]),
                edit["content"],
            )
            for edit in data["edits"]
        ),
    )
