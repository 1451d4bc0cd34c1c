"""The files around a program, and which of them an import means."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ddpdoctor.lint.console_scripts import console_scripts
from ddpdoctor.lint.sources import Module, Unreadable, read
from ddpdoctor.lint.values import Scope

if TYPE_CHECKING:
    from ddpdoctor.lint.launch_lines import Line

# The project ends at the nearest of these.
_ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
# What tells the top of a checkout that came without its history, the surest first.
_SIGNS_OF_TOP = (".gitignore", "LICENSE", "requirements.txt", "README.md")

# Trees take about 100 times the memory of their source. Past this many bytes of source, what the
# programs so far have reached is parsed again for the next one.
_MOST_SOURCE = 8 << 20

Search = tuple[str, tuple[Path, ...]]  # a module's dotted name, and the folders to look in


class Project:
    """Modules, each parsed once however many programs import it.

    contents: files, by their real paths, that are taken to hold this instead of what they hold.
    searches: what the imports of the program that runs were found to mean (a file, the folder of
    a namespace package, or None); data_files: its data files, by path, None where missing;
    listings: the files of a folder that may say how it is launched, where these were looked at.
    """

    def __init__(
        self,
        libraries: frozenset[str] = frozenset(),
        contents: Mapping[Path, bytes] = MappingProxyType({}),
    ) -> None:
        self.libraries = libraries
        self.searches: dict[Search, str | None] = {}
        self.data_files: dict[Path, bytes | None] = {}
        self.listings: dict[Path, tuple[str, ...]] = {}
        self.contents = contents
        self._modules: dict[str, Module] = {}
        self._found: dict[Search, str | None] = {}
        self._real_paths: dict[str, str] = {}
        self._listed: dict[Path, tuple[str, ...]] = {}
        self._lines: dict[Path, tuple[Line, ...]] = {}
        self._also: list[Path] = []

    def search_also(self, folder: Path) -> None:
        """Adds a folder that the program puts on sys.path."""
        if folder not in self._also:
            self._also.append(folder)

    def script(self, path: Path) -> Module:
        """The module of a file that is run as a script: its folder leads the search path."""
        if sum(module.parsed for module in self._modules.values()) > _MOST_SOURCE:
            self._modules.clear()
        path = path.absolute()
        return self._module(str(path), _dotted_name(path, project_root(path)), script_roots(path))

    def find(self, name: str, importer: Module) -> Module | None:
        """The project's module of that dotted name, or None where it is a library's."""
        found = self._search(name, importer)
        if found is None or not found.endswith(".py"):
            return None
        return self._module(found, name, importer.roots)

    def is_package(self, name: str, importer: Module) -> bool:
        """Whether a folder without __init__.py (a namespace package) has that name."""
        found = self._search(name, importer)
        return found is not None and not found.endswith(".py")

    def data_file(self, path: Path) -> bytes | None:
        """What a file that the program reads holds, None where it cannot be read."""
        if path not in self.data_files:
            try:
                self.data_files[path] = read(path)
            except Unreadable:
                self.data_files[path] = None
        return self.data_files[path]

    def launch_files(self, folder: Path) -> tuple[str, ...]:
        """The files of a folder that may hold command lines."""
        from ddpdoctor.lint.launch_lines import launch_files

        if folder not in self._listed:
            self._listed[folder] = launch_files(folder)
        found = self.listings[folder] = self._listed[folder]
        return found

    def launch_lines(self, path: Path, root: Path) -> tuple[Line, ...]:
        """The command lines in a file that start a script by a launcher."""
        from ddpdoctor.lint.launch_lines import launch_lines

        data = self.data_file(path)
        if path not in self._lines:
            self._lines[path] = () if data is None else launch_lines(path, data, root)
        return self._lines[path]

    def launches(self, entry: Module) -> tuple[Line, ...]:
        """The command lines beside a script that start it as several ranks."""
        from ddpdoctor.lint.launch_lines import launches

        return tuple(launches(entry.path, entry.data(), project_root(entry.path), self))

    def ranks_see_one_gpu(self, entry: Module, local_ranks: Iterable[str]) -> bool:
        """Whether lines beside a script give each of its ranks one GPU to see."""
        from ddpdoctor.lint.one_gpu_lines import see_one_gpu_each

        return see_one_gpu_each(entry.path, project_root(entry.path), self, local_ranks)

    def commands_of(self, entry: Module) -> tuple[str, ...]:
        """The functions of a file that the project's settings make commands of."""
        scripts = console_scripts(project_root(entry.path), self.data_file)
        return scripts.get(os.path.realpath(entry.path), ())

    def forget_runs(self) -> None:
        """Empties every module's namespace: the next program starts from nothing."""
        self._also.clear()
        self.searches.clear()
        self.data_files.clear()
        self.listings.clear()
        for module in self._modules.values():
            module.variables = {}
            module.scope = Scope(module.variables, None)
            module.state = "new"

    def reached(self) -> list[Module]:
        """Every module that was asked for, in order."""
        return list(self._modules.values())

    def _search(self, name: str, importer: Module) -> str | None:
        if name.partition(".")[0] in self.libraries:
            return None
        search = (name, (*importer.roots, *self._also))
        if search not in self._found:
            self._found[search] = find_import(*search)
        found = self.searches[search] = self._found[search]
        return found

    def _module(self, path: str, name: str, roots: tuple[Path, ...]) -> Module:
        real = self._real_paths.get(path)
        if real is None:
            real = self._real_paths[path] = os.path.realpath(path)
        module = self._modules.get(real)
        if module is None:
            module = Module(Path(path), name, roots, self.contents.get(Path(real)))
            self._modules[real] = module
        elif module.state == "new":  # another program may find it by another name
            module.name, module.roots = name, roots
        return module


def find_import(name: str, roots: Iterable[Path]) -> str | None:
    """The file (or the folder, of a namespace package) that an import means, or None."""
    parts = name.split(".")
    folder = None
    for root in roots:
        if root == root.parent:
            continue
        for below in _names_below(root, parts):
            path = os.path.join(root, *below)
            for file in (f"{path}.py", os.path.join(path, "__init__.py")):
                if os.path.isfile(file):
                    return file
            if folder is None and os.path.isdir(path):
                folder = path
    return folder


def _names_below(root: Path, parts: list[str]) -> Iterable[list[str]]:
    yield parts
    if root.name == parts[0] and len(parts) > 1 and _has_init(root):
        yield parts[1:]  # a package named after the folder it is in


def script_roots(path: Path) -> tuple[Path, ...]:
    """The folders in which the imports of a script are looked for, the first one first.

    Of a link, Python looks beside the file that it leads to.
    """
    if path.is_symlink():
        target = Path(os.path.realpath(path))
        return tuple(dict.fromkeys((*_roots(target), *_roots(path))))
    return _roots(path)


def _roots(path: Path) -> tuple[Path, ...]:
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
    return tuple(dict.fromkeys(roots))


def project_root(path: Path) -> Path:
    """The nearest folder above a file that holds a project's marks, else the one that looks like
    the top of a checkout, else the file's own folder."""
    marked = next((folder for folder in path.parents if is_project(folder)), None)
    return marked or next(_tops(path), path.parent)


def _tops(path: Path) -> Iterator[Path]:
    for sign in _SIGNS_OF_TOP:
        for folder in path.parents:
            if os.path.exists(os.path.join(folder, sign)):
                yield folder


def is_project(folder: Path) -> bool:
    return any(os.path.exists(os.path.join(folder, mark)) for mark in _ROOT_MARKS)


def _has_init(folder: Path) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


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
