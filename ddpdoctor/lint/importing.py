"""Which files a program imports, found from its bytes: an upper bound, for the search for
programs. What is really imported, the run of the program decides."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ddpdoctor.lint.project import find_import, script_roots

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import\b[ \t]*(\([^)]*\)|[^\n;]*)"
    rb"|import[ \t]+([^\n;#]+))",
    re.MULTILINE,
)
_NOISE = re.compile(rb"#[^\n]*|[()\\]")

Names = frozenset[str] | None  # those that are taken from a package; None for all of it
Import = tuple[int, str, frozenset[str]]  # level, module and names; no names for `import a`


class Files(Protocol):
    """What is asked about a file, by its path. One that cannot be read imports nothing."""

    def opens_group(self, path: str) -> bool: ...

    def imports(self, path: str) -> list[Import]: ...


class Imports:
    def __init__(self, libraries: set[str], files: Files) -> None:
        self._libraries = libraries
        self._files = files
        self._found: dict[tuple[str, tuple[Path, ...]], str | None] = {}
        self._roots: dict[str, tuple[Path, ...]] = {}
        self._lead_nowhere: set[tuple[str, Names]] = set()

    def lead_to_group(self, script: str) -> bool:
        """Whether a script, or a file that it imports at whatever distance, may start a job."""
        visited = []
        for node in self._walk(script):
            visited.append(node)
            if self._files.opens_group(node[0]):
                return True
        self._lead_nowhere.update(visited)
        return False

    def reach(self, script: str, files: set[str]) -> bool:
        """Whether a script imports any of these files (by their real paths)."""
        return any(os.path.realpath(path) in files for path, _ in self._walk(script))

    def _walk(self, script: str) -> Iterator[tuple[str, Names]]:
        roots = self._roots_of(script)
        first: tuple[str, Names] = (script, None)
        seen = {first, *self._lead_nowhere}
        stack = [first]
        while stack:
            node = stack.pop()
            yield node
            for below in self._below(*node, roots):
                if below not in seen:
                    seen.add(below)
                    stack.append(below)

    def _below(
        self, path: str, wanted: Names, roots: tuple[Path, ...]
    ) -> Iterator[tuple[str, Names]]:
        package = os.path.dirname(path)
        for level, name, names in self._files.imports(path):
            if wanted is not None and names and "*" not in names and not wanted & names:
                continue  # of a package's __init__, only what brings the names that are taken
            if level:
                folder = Path(package)
                for _ in range(level - 1):
                    folder = folder.parent
                where: tuple[Path, ...] = (folder,)
            elif name.partition(".")[0] in self._libraries:
                continue
            else:
                where = roots
            yield from self._targets(name, names, where)

    def _targets(
        self, name: str, names: frozenset[str], where: tuple[Path, ...]
    ) -> Iterator[tuple[str, Names]]:
        found = self._find(name, where) if name else str(where[0] / "__init__.py")
        if found is not None and found.endswith("__init__.py"):
            yield found, (names if names and "*" not in names else None)
        elif found is not None and found.endswith(".py"):
            yield found, None
        for below in names:
            submodule = self._find(f"{name}.{below}" if name else below, where)
            if submodule is not None and submodule.endswith(".py"):
                yield submodule, None

    def _find(self, name: str, where: tuple[Path, ...]) -> str | None:
        search = (name, where)
        if search not in self._found:
            self._found[search] = find_import(*search)
        return self._found[search]

    def _roots_of(self, script: str) -> tuple[Path, ...]:
        # Those of a folder's scripts are the same, except where one is a link.
        key = script if os.path.islink(script) else os.path.dirname(script)
        if key not in self._roots:
            self._roots[key] = script_roots(Path(script))
        return self._roots[key]


def import_statements(data: bytes) -> Iterator[Import]:
    for dots, module, names, plain in _IMPORT.findall(data):
        if plain:
            for part in plain.split(b","):
                words = part.split()
                if words:
                    yield 0, words[0].decode("utf-8", "replace"), frozenset()
        elif dots or module:
            listed = _NOISE.sub(b" ", names).split(b",")
            taken = frozenset(
                part.split()[0].decode("utf-8", "replace") for part in listed if part.split()
            )
            yield len(dots), module.decode("utf-8", "replace"), taken
