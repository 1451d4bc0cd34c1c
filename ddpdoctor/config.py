"""What a project sets for itself: [tool.ddpdoctor] in pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import tomli

from ddpdoctor.findings import DdpdoctorError, Finding


@dataclass(frozen=True)
class Config:
    """folder: where pyproject.toml stands; paths in it, and patterns, are relative to it.

    select, ignore: rules or groups (DDP1); per_file_ignores: rules not to report in files that
    match a pattern; apis: tables of the project's own library facts; exclude: patterns of files
    and folders to leave out.
    """

    folder: Path = Path()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    apis: tuple[Path, ...] = ()
    exclude: tuple[str, ...] = ()

    def codes(self, known: Iterable[str]) -> list[str]:
        """The rules to apply, of those there are. Raises DdpdoctorError for one there is not."""
        rules = list(known)
        left_out = {code for word in self.ignore for code in _matching(word, rules)}
        for words in self.per_file_ignores.values():
            for word in words:
                _matching(word, rules)
        chosen = {code for word in self.select for code in _matching(word, rules)} or set(rules)
        return [code for code in rules if code in chosen and code not in left_out]

    def excludes(self, file: Path) -> bool:
        return any(self._matches(file, pattern) for pattern in self.exclude)

    def ignores(self, finding: Finding) -> bool:
        """Whether the finding is one that the project does not want in its file."""
        if finding.filename is None:
            return False
        file = Path(finding.filename)
        return self.excludes(file) or any(
            finding.code.startswith(tuple(word.upper() for word in words))
            for pattern, words in self.per_file_ignores.items()
            if self._matches(file, pattern)
        )

    def _matches(self, file: Path, pattern: str) -> bool:
        """A pattern means a file, or a folder above it, by its path or by its name."""
        relative = Path(os.path.relpath(file.absolute(), self.folder.absolute()))
        return any(
            fnmatch(part.as_posix(), pattern.rstrip("/")) or fnmatch(part.name, pattern.rstrip("/"))
            for part in (relative, *relative.parents)
            if part.name
        )


def find_config(paths: Iterable[Path]) -> Config:
    """The settings of the project around these paths: of the nearest pyproject.toml that has some.

    Raises DdpdoctorError for a file that cannot be read or holds something unknown.
    """
    absolute = [str(path.absolute()) for path in paths]
    start = Path(os.path.commonpath(absolute)) if absolute else Path.cwd()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if os.path.isfile(file):  # not Path.is_file(), which raises without permission
            section = _section(file)
            if section is not None:
                return _config(file, section)
    return Config(start)


def _section(file: Path) -> dict[str, Any] | None:
    try:
        tools = tomli.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except OSError as error:
        raise DdpdoctorError(f"{file}: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DdpdoctorError(f"{file}: not valid TOML: {error}") from None
    section = tools.get("ddpdoctor") if isinstance(tools, dict) else None
    if section is not None and not isinstance(section, dict):
        raise DdpdoctorError(f"{file}: [tool.ddpdoctor] has to be a table")
    return section


_LISTS = ("select", "ignore", "apis", "exclude")


def _config(file: Path, section: dict[str, Any]) -> Config:
    for key in section:
        if key not in (*_LISTS, "per-file-ignores"):
            known = ", ".join((*_LISTS, "per-file-ignores"))
            raise DdpdoctorError(f"{file}: unknown setting {key!r}; known are {known}")
    per_file = section.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise DdpdoctorError(f"{file}: per-file-ignores has to be a table of patterns")
    lists = {key: _texts(file, key, section.get(key, [])) for key in _LISTS}
    return Config(
        file.parent,
        lists["select"],
        lists["ignore"],
        {pattern: _texts(file, pattern, words) for pattern, words in per_file.items()},
        tuple(file.parent / name for name in lists["apis"]),
        lists["exclude"],
    )


def _texts(file: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DdpdoctorError(f"{file}: {key} has to be a list of strings")
    return tuple(value)


def _matching(word: str, known: list[str]) -> list[str]:
    matches = [code for code in known if code.startswith(word.strip().upper())]
    if not matches:
        raise DdpdoctorError(f"unknown rule {word}; `ddpdoctor rules` lists them")
    return matches
