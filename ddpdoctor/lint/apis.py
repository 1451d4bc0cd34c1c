"""What is known of libraries, from the tables in rules/apis and those a user adds.

A table says what a call does ("bind", "group", "place" ...) and where its arguments stand:
"device@0" is the keyword `device` or the first positional argument. The engine knows the words,
the tables know the libraries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint.values import Arguments, Value
from ddpdoctor.resources import resource

# An alias may lead to another (a package, then a class in it); a user's table must not loop.
_MOST_ALIASES = 4


@dataclass(frozen=True)
class Api:
    """One call of a library: what it does, and its facts (argument places and flags)."""

    name: str
    does: str
    facts: dict[str, Any]

    def argument(self, role: str, arguments: Arguments) -> Value | None:
        """The argument that plays a role, or None where it is not given (or has no such role)."""
        spec = self.facts.get(role)
        if not isinstance(spec, str):
            return None
        names, _, position = spec.partition("@")
        return arguments.get(
            int(position) if position else None, *(name for name in names.split("|") if name)
        )

    def keyword(self, role: str) -> str:
        """The keyword to write for a role in a repair."""
        return str(self.facts.get(role, "")).partition("@")[0].split("|")[0]


class Apis:
    """All tables together."""

    def __init__(self, tables: Iterable[dict[str, Any]]) -> None:
        self.libraries: set[str] = set()
        self.calls: dict[str, Api] = {}
        self.methods: dict[str, Api] = {}
        self.values: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.machines: dict[str, str] = {}
        self.classes: dict[str, dict[str, Any]] = {}
        self.aliases: dict[str, str] = {}
        self.may_bind: list[str] = []
        self.mixing: list[str] = []
        for table in tables:
            self.libraries.update(table.get("libraries", ()))
            self.values.update(table.get("values", {}))
            self.environment.update(table.get("environment", {}))
            self.machines.update(table.get("machines", {}))
            self.classes.update(table.get("classes", {}))
            self.aliases.update(table.get("aliases", {}))
            self.may_bind.extend(table.get("may_bind", ()))
            self.mixing.extend(table.get("mixes_devices", ()))
            for kind, known in (("calls", self.calls), ("methods", self.methods)):
                for name, facts in table.get(kind, {}).items():
                    known[name] = Api(name, facts["does"], facts)

    def canonical(self, name: str) -> str:
        """The name under which the tables know it: aliases are whole names or leading packages."""
        for _ in range(_MOST_ALIASES):
            renamed = self._renamed(name)
            if renamed == name:
                break
            name = renamed
        return name

    def _renamed(self, name: str) -> str:
        head = name
        while head:
            if head in self.aliases:
                return self.aliases[head] + name[len(head) :]
            head = head.rpartition(".")[0]
        return name

    def call(self, name: str) -> Api | None:
        """What a library's function or class does when it is called."""
        found = self.calls.get(name)
        if found is None:
            last = name.rpartition(".")[2]
            found = self._anywhere.get(last)
            if found is not None and not _in_package(name, found):
                return None
        return found

    def kind(self, cls: str) -> str | None:
        """The kind of a library's class, such as "module"; "package.*" means every class in it."""
        return self._class(cls).get("kind")

    def mixes_devices(self, name: str) -> bool:
        """Whether the tensors that a function or module takes need not be on one device."""
        return name.startswith(tuple(self.mixing))

    def tensors(self, cls: str) -> str:
        """What tensors a module of a library has: "none", those it is "given", or its "own"."""
        last, facts = cls.rpartition(".")[2], self._class(cls)
        for which in ("none", "given"):
            if any(fnmatchcase(last, name) for name in facts.get(f"tensors_{which}", ())):
                return which
        return "own"

    def builds(self, function: str) -> bool:
        """Whether a library's function makes a module, as its classes do."""
        last = function.rpartition(".")[2]
        return any(fnmatchcase(last, name) for name in self._class(function).get("builders", ()))

    def _class(self, cls: str) -> dict[str, Any]:
        head = self.canonical(cls)
        facts = self.classes.get(head)
        while facts is None and "." in head:
            head = head.rpartition(".")[0]
            facts = self.classes.get(f"{head}.*")
        return facts or {}

    @cached_property
    def _anywhere(self) -> dict[str, Api]:
        return {name[2:]: api for name, api in self.calls.items() if name.startswith("*.")}


def _in_package(name: str, api: Api) -> bool:
    packages = api.facts.get("packages")
    return packages is None or name.partition(".")[0] in packages


def load(user_tables: Iterable[Path] = ()) -> Apis:
    """The tool's tables, then the user's. Raises DdpdoctorError for one that is not right."""
    own = sorted(resource("rules/apis").glob("*.toml"))
    return Apis([*map(_read, own), *map(_checked, user_tables)])


_SECTIONS = {
    "libraries": list,
    "calls": dict,
    "methods": dict,
    "values": dict,
    "environment": dict,
    "machines": dict,
    "classes": dict,
    "aliases": dict,
    "may_bind": list,
    "mixes_devices": list,
}


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DdpdoctorError(f"{path}: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DdpdoctorError(f"{path}: not a valid TOML table: {error}") from None
    for section, content in table.items():
        if section not in _SECTIONS:
            known = ", ".join(_SECTIONS)
            raise DdpdoctorError(f"{path}: unknown section [{section}]; known are {known}")
        if not isinstance(content, _SECTIONS[section]):
            raise DdpdoctorError(f"{path}: section [{section}] has the wrong form")
    return table


def _checked(path: Path) -> dict[str, Any]:
    from ddpdoctor.lint.effects import KINDS  # imports all of the analyzer

    table = _read(path)
    for section in ("calls", "methods"):
        for name, facts in table.get(section, {}).items():
            does = facts.get("does") if isinstance(facts, dict) else None
            if does not in KINDS:
                known = ", ".join(sorted(KINDS))
                raise DdpdoctorError(
                    f'{path}: [{section}] "{name}" needs does = "...", one of {known}'
                )
    return table
