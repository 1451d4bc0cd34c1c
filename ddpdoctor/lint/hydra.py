"""Hydra: the configuration that a program is started with, and what it makes of it.

@hydra.main names a YAML file, whose list of defaults names others. What they say holds by default,
as the command line may set it. So do the fields of a class that is registered under that name.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from ddpdoctor.lint import environment, operators
from ddpdoctor.lint.calls import call as call_value
from ddpdoctor.lint.config_objects import read_config, read_yaml
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.options import NAMESPACE, as_option, call_with_options, gives_first_argument
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.sources import Module
from ddpdoctor.lint.spelled_names import by_dotted_path
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    Name,
    Object,
    Partial,
    Place,
    Sequence,
    Unknown,
    Value,
)

_NOTHING = Arguments()
_STORE = "hydra's store"
_MOST_FILES = 60
_MOST_DEPTH = 12
_MOST_VALUES = 10_000  # YAML's aliases make few lines mean many values
_PACKAGE = re.compile(r"^# *@package +(\S+)", re.MULTILINE)
_INTERPOLATION = re.compile(r"\$\{([^{}]*)\}")


def main(call: Call) -> Value:
    """@hydra.main(config_path="conf", config_name="train"): gives the function its argument."""
    path, name = call.argument("path") or Const(None), call.argument("config")
    if not (isinstance(path, Const) and isinstance(name, Const) and isinstance(name.value, str)):
        return Unknown()
    folders = _folders(call.place.module, str(path.value or ""))
    data = _Composer(call.run, folders).compose(name.value.removesuffix(".yaml"), "", 0)
    if data:
        config = _Values(call.run, call.place, data).of(data, "")
    else:
        node = call.run.of_unknown.get((_STORE, name.value), Unknown())
        config = call_with_options(call.run, resolve(node, call.run.path), call.place)

    return gives_first_argument(call.run, lambda parameter: config)


def _folders(module: Module, path: str) -> list[Path]:
    """Where a configuration may lie: beside its program, or in a package, "pkg://project.conf"."""
    _, in_package, package = path.partition("pkg://")
    if not in_package:
        return [module.path.parent / path]
    return [root / package.replace(".", "/") for root in module.roots]


def store(call: Call) -> Value:
    """ConfigStore.instance().store(name="config", node=Config): a configuration made in code."""
    name, node = call.argument("name"), call.argument("node")
    if isinstance(name, Const) and isinstance(node, Class) and call.argument("group") is None:
        call.run.heap.write(call.run.of_unknown, (_STORE, name.value), node)
    return Unknown()


class _Composer:
    """Puts the files of some folders together as plain data."""

    def __init__(self, run: Run, folders: list[Path]) -> None:
        self._run = run
        self._folders = folders
        self._left = _MOST_FILES

    def compose(self, file: str, package: str, depth: int) -> dict[str, Any]:
        """A file and its defaults, each in its package, the dotted path where its entries go."""
        text = read_config(self._run, self._folders, f"{file}.yaml")
        self._left -= 1
        if text is None or self._left < 0 or depth > _MOST_DEPTH:
            return {}
        try:
            data = read_yaml(text)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(data, dict):
            return {}
        moved = _PACKAGE.search(text.decode("utf-8", "replace"))
        if moved is not None and "_group_" not in moved[1]:
            package = moved[1].removeprefix("_global_").lstrip(".")
        listed = data.pop("defaults", None)
        defaults = listed if isinstance(listed, list) else []
        merged: dict[str, Any] = {}
        for entry in [*defaults, *([] if "_self_" in defaults else ["_self_"])]:
            if entry == "_self_":
                _merge(merged, _nested(package, data))
            elif isinstance(entry, str):
                group = str(PurePosixPath(file).parent)
                _merge(merged, self.compose(_below(group, entry), package, depth + 1))
            elif isinstance(entry, dict):
                for group, choice in entry.items():
                    self._choose(merged, file, str(group), choice, package, depth)
        return merged

    def _choose(
        self, merged: dict[str, Any], file: str, group: str, choice: Any, package: str, depth: int
    ) -> None:
        """`- optimizer: adam` of a list of defaults: the file of that name in that folder."""
        words = group.split() or [""]
        path, _, moved = words[-1].partition("@")
        if path.strip("/").startswith("hydra/"):
            return
        inner = path.strip("/").replace("/", ".")
        if moved == "_global_":
            target = ""
        else:
            target = ".".join(part for part in (package, moved or inner) if part)
        if words[0] == "override":
            _remove(merged, target)
        folder = path if path.startswith("/") else _below(str(PurePosixPath(file).parent), path)
        for name in choice if isinstance(choice, list) else [choice]:
            if isinstance(name, str):
                chosen = f"{folder.strip('/')}/{name.removesuffix('.yaml')}"
                _merge(merged, self.compose(chosen, target, depth + 1))


def _below(folder: str, name: str) -> str:
    if name.startswith("/"):
        return name.strip("/")
    return name if folder == "." else f"{folder}/{name}"


def _nested(package: str, data: dict[str, Any]) -> dict[str, Any]:
    for part in reversed(package.split(".") if package else []):
        data = {part: data}
    return data


def _merge(into: dict[str, Any], more: dict[str, Any], depth: int = 0) -> None:
    for key, value in more.items():
        held = into.get(key)
        if isinstance(held, dict) and isinstance(value, dict) and depth < _MOST_DEPTH:
            _merge(held, value, depth + 1)
        else:
            into[key] = value


def _remove(data: dict[str, Any], package: str) -> None:
    above, _, last = package.rpartition(".")
    inner: Any = data
    for part in above.split(".") if above else []:
        inner = inner.get(part) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(last, None)


class _Values:
    """Makes abstract values of the composed data: each scalar is the default of a setting."""

    def __init__(self, run: Run, place: Place, data: dict[str, Any]) -> None:
        self._run = run
        self._place = place
        self._data = data
        self._left = _MOST_VALUES

    def of(self, data: Any, dotted: str, depth: int = 0) -> Value:
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEPTH:
            return Unknown()
        if isinstance(data, dict):
            attributes: dict[Any, Value] = {
                key: self.of(item, f"{dotted}.{key}".lstrip("."), depth + 1)
                for key, item in data.items()
            }
            return Object(Name(NAMESPACE), attributes, self._place)
        if isinstance(data, list):
            items = [self.of(item, f"{dotted}.{i}", depth + 1) for i, item in enumerate(data[:64])]
            return Sequence(tuple(items), open=len(data) > len(items))
        if isinstance(data, str) and "${" in data:
            return self._interpolated(data, depth)
        if data == "???":
            return Unknown()
        if data is not None and not isinstance(data, (bool, int, float, str)):
            return Unknown()
        value = Const(data, self._place)
        if dotted.rpartition(".")[2].startswith("_"):
            return value  # _target_: what the rest of its table is made for
        return as_option(dotted, value, self._place)

    def _interpolated(self, text: str, depth: int) -> Value:
        """ "cuda:${gpu}", ${oc.env:LOCAL_RANK}, ${model.width}."""
        parts: list[Value | str] = []
        for position, piece in enumerate(_INTERPOLATION.split(text)):
            if "${" in piece:
                return Unknown()  # one within another
            parts.append(self._referred(piece, depth) if position % 2 else piece)
        if len(parts) == 3 and parts[0] == parts[2] == "" and isinstance(parts[1], Value):
            return parts[1]
        return operators.join_text(tuple(parts), self._place)

    def _referred(self, name: str, depth: int) -> Value:
        kind, colon, rest = name.partition(":")
        if colon:
            variable, comma, default = rest.partition(",")
            if kind not in ("oc.env", "env"):
                return Unknown()
            return environment.read(
                self._run, Const(variable.strip()), Const(default.strip()) if comma else None
            )
        data: Any = self._data
        for part in name.split("."):
            if not isinstance(data, dict) or part not in data:
                return Unknown()
            data = data[part]
        return self.of(data, name, depth + 1)


def instantiate(call: Call) -> Value:
    """hydra.utils.instantiate(config): calls the config's _target_ with its other entries."""
    given = call.arguments
    rest = Arguments(given.positional[1:], given.named, given.open)
    return _make(call, call.argument("config") or Unknown(), rest)


def _make(call: Call, config: Value, given: Arguments = _NOTHING, depth: int = 0) -> Value:
    config = resolve(config, call.run.path)
    if isinstance(config, Sequence):
        made = tuple(_make(call, item, depth=depth + 1) for item in config.items)
        return Sequence(made, config.kind, open=config.open)
    if not isinstance(config, (Dict, Object)) or depth > _MOST_DEPTH:
        return config
    entries = config.entries if isinstance(config, Dict) else config.attributes
    target = resolve(entries.get("_target_", Unknown()), call.run.path)
    named = {key: value for key, value in entries.items() if str(key)[:1] not in "_#"}
    if not _is(entries.get("_recursive_"), False):
        named = {key: _make(call, value, depth=depth + 1) for key, value in named.items()}
    if "_target_" not in entries:
        return Object(Name(NAMESPACE), named, call.place)
    if not isinstance(target, Const):
        return Unknown()
    function = by_dotted_path(call.run, str(target.value), call.place)
    keywords = {key: value for key, value in named.items() if isinstance(key, str)}
    arguments = Arguments(given.positional, {**keywords, **given.named}, given.open)
    if _is(entries.get("_partial_"), True):
        return Partial(function, arguments, call.place)
    return call_value(call.run, function, arguments, call.place)


def _is(value: Value | None, wanted: bool) -> bool:
    return isinstance(value, Const) and value.value is wanted
