"""Functions that an installed project makes commands of: they start programs without a main guard.

Read from [project.scripts] and [tool.poetry.scripts] in pyproject.toml and from console_scripts in
setup.cfg and setup.py; what a setup.py computes is not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomli

Read = Callable[[Path], "bytes | None"]


def console_scripts(root: Path, read: Read) -> dict[str, tuple[str, ...]]:
    """The functions of a project's commands, by the real path of the file that defines them.

    read: gives a file's bytes, None where there is no such file.
    """
    found: dict[str, tuple[str, ...]] = {}
    for target in (
        *_of_pyproject(read(root / "pyproject.toml")),
        *_of_setup_cfg(read(root / "setup.cfg")),
        *_of_setup_py(read(root / "setup.py")),
    ):
        name, colon, function = target.partition("[")[0].strip().partition(":")
        path = _file_of(root, name.strip()) if colon else None
        if path is not None:
            functions = dict.fromkeys((*found.get(path, ()), function.strip()))
            found[path] = tuple(functions)
    return found


def _of_pyproject(data: bytes | None) -> Iterator[str]:
    if data is None or b"scripts" not in data:
        return
    try:
        settings = tomli.loads(data.decode("utf-8", "replace"))
    except tomli.TOMLDecodeError:
        return
    poetry = _table(_table(settings, "tool"), "poetry")
    for table in (_table(settings, "project"), poetry):
        yield from (value for value in _table(table, "scripts").values() if isinstance(value, str))


def _table(settings: dict[str, Any], name: str) -> dict[str, Any]:
    table = settings.get(name)
    return table if isinstance(table, dict) else {}


def _of_setup_cfg(data: bytes | None) -> Iterator[str]:
    if data is None or b"console_scripts" not in data:
        return
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return
    yield from _targets(parser.get("options.entry_points", "console_scripts", fallback=""))


def _of_setup_py(data: bytes | None) -> Iterator[str]:
    """The texts in entry_points={"console_scripts": [...]}, wherever that table stands."""
    if data is None or b"console_scripts" not in data:
        return
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a newer Python will not take
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for table in ast.walk(tree):
        if isinstance(table, ast.Dict):
            for key, value in zip(table.keys, table.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "console_scripts":
                    for text in ast.walk(value):
                        if isinstance(text, ast.Constant) and isinstance(text.value, str):
                            yield from _targets(text.value)


def _targets(lines: str) -> Iterator[str]:
    return (line.partition("=")[2] for line in lines.splitlines())


def _file_of(root: Path, module: str) -> str | None:
    parts = module.split(".")
    for folder in (root, root / "src"):
        path = folder.joinpath(*parts)
        for candidate in (path.with_name(path.name + ".py"), path / "__init__.py"):
            if os.path.isfile(candidate):
                return os.path.realpath(candidate)
    return None
