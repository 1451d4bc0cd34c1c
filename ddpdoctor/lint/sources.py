"""Source files of a project: their bytes, their trees, and where an import leads."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import libcst as cst

from ddpdoctor.lint.values import Scope, Value

# The project ends at the nearest of these.
_ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")

# A file this large is generated data, not a training program; it is named under skipped.
MOST_BYTES = 8 << 20


class Unreadable(Exception):
    """A file that cannot be read or parsed; the text is one line for the user."""


class Module:
    """A Python file. It is parsed once, when first needed.

    variables: the module's namespace once the interpreter has run it. state: "new", "running" or
    "done", so that circular imports see a half-filled namespace, as in Python.
    """

    def __init__(
        self, path: Path, name: str, roots: tuple[Path, ...], data: bytes | None = None
    ) -> None:
        self.path = path
        self.name = name
        self.roots = roots
        self.variables: dict[Any, Value] = {}
        self.scope = Scope(self.variables, None)
        self.state = "new"
        self._tree: cst.Module | None = None
        self._problem: Unreadable | None = None
        self._data = data

    def __repr__(self) -> str:
        return f"Module({self.path})"

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def data(self) -> bytes:
        """The file's bytes. Raises Unreadable."""
        if self._data is None:
            self._data = read(self.path)
        return self._data

    def tree(self) -> cst.Module:
        """The concrete syntax tree. Raises Unreadable."""
        if self._problem is not None:
            raise self._problem
        if self._tree is None:
            try:
                self._tree = parse(self.data(), self.path)
            except Unreadable as problem:
                self._problem = problem
                raise
        return self._tree


def read(path: Path) -> bytes:
    """Raises Unreadable with the reason in one line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Unreadable(f"larger than {MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def parse(data: bytes, path: Path) -> cst.Module:
    """The tree of a file's bytes. Raises Unreadable."""
    if b"\0" in data:
        raise Unreadable("contains null bytes")
    if _nesting(data) > MOST_NESTING:
        raise Unreadable(f"nests deeper than {MOST_NESTING} brackets")
    try:
        return cst.parse_module(data)
    except cst.ParserSyntaxError as error:
        raise Unreadable(
            f"syntax error at line {error.raw_line}, column {error.raw_column + 1}"
        ) from None
    except (UnicodeDecodeError, LookupError):
        raise Unreadable("is not valid text in its encoding (UTF-8 unless declared)") from None
    except RecursionError:
        raise Unreadable("nests too deeply") from None
    except Exception as error:  # the native parser raises bare Exceptions for odd input
        raise Unreadable(f"cannot be parsed: {str(error).splitlines()[0][:200]}") from None


# libcst's native parser recurses on the C stack; CPython's own parser gives up at 200 brackets.
MOST_NESTING = 200
_BRACKETS = re.compile(rb"[(\[{}\])]")


def _nesting(data: bytes) -> int:
    """An upper bound for how deeply brackets nest (those in strings and comments count too)."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(data):
        if bracket in b"([{":
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return deepest


class Project:
    """The files around a program, and which of them an import means.

    contents: files, by their real paths, that are taken to hold this instead of what they hold.
    """

    def __init__(
        self,
        libraries: frozenset[str] = frozenset(),
        contents: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> None:
        self.libraries = libraries
        self._contents = contents
        self._modules: dict[Path, Module] = {}
        self._is_file: dict[Path, bool] = {}
        self._also: list[Path] = []

    def search_also(self, folder: Path) -> None:
        """Adds a folder that the program puts on sys.path."""
        if folder not in self._also:
            self._also.append(folder)

    def script(self, path: Path) -> Module:
        """The module of a file that is run as a script: its folder leads the search path."""
        path = path.absolute()
        root = project_root(path)
        roots = [path.parent]
        package = path.parent
        while package != root and root in package.parents and _has_init(package):
            package = package.parent
            roots.append(package)
        folder = path.parent
        while folder != root and root in folder.parents:
            folder = folder.parent
            roots.append(folder)
        roots += [root, root / "src"]
        if _has_init(root):
            roots.append(root.parent)  # a package named after its checkout
        name = _dotted_name(path, root)
        return self._module(path, name, tuple(dict.fromkeys(roots)))

    def find(self, name: str, importer: Module) -> Module | None:
        """The project's module of that dotted name, or None where it is a library's."""
        top, _, rest = name.partition(".")
        if top in self.libraries:
            return None
        for root in (*importer.roots, *self._also):
            if root == root.parent:
                continue
            found = self._under(root, name, importer.roots)
            if found is not None:
                return found
            if root.name == top and rest and _has_init(root):
                found = self._under(root, rest, importer.roots)
                if found is not None:
                    return found
        return None

    def _under(self, root: Path, name: str, roots: tuple[Path, ...]) -> Module | None:
        path = root.joinpath(*name.split("."))
        for candidate in (path.with_name(path.name + ".py"), path / "__init__.py"):
            if self._exists(candidate):
                return self._module(candidate, name, roots)
        return None

    def is_package(self, name: str, importer: Module) -> bool:
        """Whether a folder without __init__.py (a namespace package) has that name."""
        return name.partition(".")[0] not in self.libraries and any(
            root.joinpath(*name.split(".")).is_dir() for root in (*importer.roots, *self._also)
        )

    def _exists(self, path: Path) -> bool:
        known = self._is_file.get(path)
        if known is None:
            known = self._is_file[path] = path.is_file()
        return known

    def _module(self, path: Path, name: str, roots: tuple[Path, ...]) -> Module:
        key = Path(os.path.realpath(path))
        module = self._modules.get(key)
        if module is None:
            module = self._modules[key] = Module(path, name, roots, self._contents.get(key))
        return module

    def forget_runs(self) -> None:
        """Empties every module's namespace: the next program starts from nothing."""
        self._also.clear()
        for module in self._modules.values():
            module.variables = {}
            module.scope = Scope(module.variables, None)
            module.state = "new"

    def reached(self) -> list[Module]:
        """Every module that was asked for, in order."""
        return list(self._modules.values())


def project_root(path: Path) -> Path:
    """The nearest folder above a file that holds a project's marks, else the file's own folder."""
    for folder in path.parents:
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return path.parent


def _has_init(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _dotted_name(path: Path, root: Path) -> str:
    try:
        parts = list(path.relative_to(root).with_suffix("").parts)
    except ValueError:
        return path.stem
    if parts and parts[-1] == "__init__":
        parts.pop()
    if parts and parts[0] == "src":
        parts.pop(0)
    return ".".join(parts) or path.stem
