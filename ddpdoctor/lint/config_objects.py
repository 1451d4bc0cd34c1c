"""Configuration objects (EasyDict, OmegaConf, yacs ...) and the files that they are read from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ddpdoctor.lint.natives import copied, native_method
from ddpdoctor.lint.options import NAMESPACE, as_default, call_with_options
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    Name,
    Native,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)

Standard = Callable[[Run, Arguments, Place], Value]
_LARGEST = 1 << 17  # bytes; PyYAML reads some 100 KB a second
_DEEPEST = 200
_BRACKETS = re.compile(rb"[\[\]{}]")
_DASHES = re.compile(rb"(?:[-?] +){%d}" % _DEEPEST)


def namespace_method(
    run: Run, receiver: Object, name: str, arguments: Arguments, place: Place
) -> Value | None:
    """Configuration objects are dictionaries too: cfg.get("gpu", 0), cfg.clone() ..."""
    if name in ("clone", "copy", "deepcopy"):
        return copied(run, receiver)
    if name in ("merge_from_file", "merge_from_list"):
        _override(run, receiver)
        return Const(None)
    method = native_method(run, Dict(receiver.attributes), name)
    return method.call(arguments, place) if isinstance(method, Native) else None


def open_file(run: Run, arguments: Arguments, place: Place) -> Value:
    path = arguments.get(0, "file")
    attributes: dict[Any, Value] = {} if path is None else {"#file": path}
    return Object(Name("io.TextIOWrapper"), attributes, place)


def read_config(run: Run, folders: Iterable[Path], path: str) -> bytes | None:
    """A file in the first of the folders that has it; None for one that is too large, too."""
    for folder in folders:
        data = run.project.data_file(folder / path)
        if data is not None and len(data) <= _LARGEST:
            return data
    return None


def read_yaml(text: bytes) -> Any:
    """Raises ValueError for what is no YAML, or nests deeper than any configuration does."""
    import yaml

    if _nests_deeply(text):
        raise ValueError("it nests too deeply")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _nests_deeply(text: bytes) -> bool:
    """PyYAML's time grows with the square of the depth of brackets: 3,000 take it 20 seconds."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in b"[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest > _DEEPEST or _DASHES.search(text) is not None


def _namespace(run: Run, arguments: Arguments, place: Place) -> Value:
    """Namespace(**options), EasyDict({...}): attributes that can be read and written."""
    attributes: dict[Any, Value] = {}
    given = arguments.get(0)
    if isinstance(given, Dict):
        attributes.update({key: _nested(value, place) for key, value in given.entries.items()})
    attributes.update(arguments.named)
    return Object(Name(NAMESPACE), attributes, place)


def _nested(value: Value, place: Place) -> Value:
    if isinstance(value, Dict):
        inner: dict[Any, Value] = {k: _nested(v, place) for k, v in value.entries.items()}
        return Object(Name(NAMESPACE), inner, place)
    return value


def _override(run: Run, config: Object, above: str = "") -> None:
    """A file that is not seen may change every constant: each becomes the default of a setting."""
    for key, held in list(config.attributes.items()):
        name = f"{above}{key}"
        value = resolve(held, run.path)
        if isinstance(value, Object):
            _override(run, value, f"{name}.")
        elif isinstance(value, Const) and value.value is not None:
            setting = Unknown(
                ("setting", id(config.attributes), key),
                default=value,
                given=name,
                origin=value.origin,
            )
            run.heap.write(config.attributes, key, setting)
        elif isinstance(value, Sequence):
            run.heap.write(config.attributes, key, as_default(value))


def _merge(run: Run, arguments: Arguments, place: Place) -> Value:
    """OmegaConf.merge(base, more): later ones win, level by level."""
    merged: dict[Any, Value] = {}
    for given in arguments.positional:
        value = resolve(given, run.path)
        if isinstance(value, Unknown):  # OmegaConf.from_cli(), a file that is not seen
            merged = {key: copied(run, held) for key, held in merged.items()}
            _override(run, Object(Name(NAMESPACE), merged))
        if isinstance(value, Dict):
            value = _nested(value, place)
        for key, held in value.attributes.items() if isinstance(value, Object) else ():
            before = merged.get(key)
            if isinstance(before, Object) and isinstance(held, Object):
                held = _merge(run, Arguments((before, held)), place)
            merged[key] = held
    return Object(Name(NAMESPACE), merged, place)


def _structured(run: Run, arguments: Arguments, place: Place) -> Value:
    """OmegaConf.structured(Config): an instance of a dataclass, that the command line can set."""
    given = arguments.get(0) or Unknown()
    return call_with_options(run, given, place) if isinstance(given, Class) else given


def _namespace_file(run: Run, arguments: Arguments, place: Place) -> Value:
    return _nested(_from_file(read_yaml)(run, arguments, place), place)


def _from_file(parse: Callable[[bytes], Any]) -> Standard:
    """json.load(open("x.json")), yaml.safe_load(...) of a file that stands beside the program."""

    def load(run: Run, arguments: Arguments, place: Place) -> Value:
        stream = resolve(arguments.get(0) or Unknown(), run.path)
        path = stream.attributes.get("#file", Unknown()) if isinstance(stream, Object) else stream
        path = resolve(path, run.path)
        option = path if isinstance(path, Unknown) else None
        if option is not None and option.default is not None:
            path = option.default
        if not isinstance(path, Const) or not isinstance(path.value, str):
            return Unknown()
        data = read_config(run, run.trace.entry.roots, path.value)
        if data is None:
            return Unknown()
        try:
            return _value_of(parse(data), place, option)
        except (ValueError, RecursionError):
            return Unknown()

    return load


def _value_of(
    data: Any, place: Place, option: Unknown | None, made: dict[int, Value] | None = None
) -> Value:
    """The abstract value of plain data; what YAML's aliases share is shared here too.

    option: the command-line option that names the file, whose default was read.
    """
    made = {} if made is None else made
    known = made.get(id(data))
    if known is not None:
        return known
    if isinstance(data, (dict, list, tuple)):
        made[id(data)] = Unknown()  # what holds itself
    if isinstance(data, dict):
        entries = {key: _value_of(item, place, option, made) for key, item in data.items()}
        made[id(data)] = Dict(entries)
        return made[id(data)]
    if isinstance(data, (list, tuple)):
        items = tuple(_value_of(item, place, option, made) for item in data[:64])
        made[id(data)] = Sequence(items, open=len(data) > len(items))
        return made[id(data)]
    if isinstance(data, str) and "${" in data:
        return Unknown()  # something else is put in its place when it is read
    if data is None or isinstance(data, (bool, int, float, str)):
        value = Const(data, place)
        if option is None:
            return value
        return Unknown(default=value, given=option.given, origin=place)
    return Unknown()


FUNCTIONS: dict[str, Standard] = {
    "types.SimpleNamespace": _namespace,
    "argparse.Namespace": _namespace,
    "easydict.EasyDict": _namespace,
    "munch.Munch": _namespace,
    "addict.Dict": _namespace,
    "box.Box": _namespace,
    "dotmap.DotMap": _namespace,
    "ml_collections.ConfigDict": _namespace,
    "yacs.config.CfgNode": _namespace,
    "omegaconf.OmegaConf.create": _namespace,
    "omegaconf.OmegaConf.structured": _structured,
    "omegaconf.OmegaConf.merge": _merge,
    "omegaconf.OmegaConf.load": _namespace_file,
    "builtins.open": open_file,
    "io.open": open_file,
    "codecs.open": open_file,
    "json.load": _from_file(json.loads),
    "json.loads": _from_file(json.loads),
    "yaml.load": _from_file(read_yaml),
    "yaml.safe_load": _from_file(read_yaml),
    "yaml.full_load": _from_file(read_yaml),
}
