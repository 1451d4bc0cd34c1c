"""The standard library's functions that programs route values and calls through."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddpdoctor.lint import ini_files, operators
from ddpdoctor.lint.attributes import get_attribute, import_module
from ddpdoctor.lint.branches import Dead, resolve
from ddpdoctor.lint.builtin_functions import call_builtin
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.kinds.process import start_block
from ddpdoctor.lint.natives import copy_of, native_method
from ddpdoctor.lint.options import (
    NAMESPACE,
    PARSER,
    as_default,
    call_with_options,
    new_parser,
    parser_method,
)
from ddpdoctor.lint.processes import (
    EXECUTOR,
    PROCESSES,
    THREAD,
    start,
    submit,
)
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.spelled_names import of_text
from ddpdoctor.lint.values import (
    NAMED_TUPLE,
    Arguments,
    Class,
    Const,
    Dict,
    Function,
    Method,
    Name,
    Native,
    Object,
    Partial,
    Place,
    Sequence,
    Text,
    Unknown,
    Value,
)

Standard = Callable[[Run, Arguments, Place], Value]


def call_standard(run: Run, name: str, arguments: Arguments, place: Place) -> Value | None:
    """A function of the standard library; None where it is not modelled."""
    known = _FUNCTIONS.get(name)
    return None if known is None else known(run, arguments, place)


def standard_method(
    run: Run, receiver: Value, owner: str, name: str, arguments: Arguments, place: Place
) -> Value | None:
    """A method of an object that the standard library made; None where it is not modelled."""
    if not isinstance(receiver, Object):
        return None
    if owner == PARSER:
        return parser_method(run, receiver, name, arguments, place)
    if owner in ini_files.PARSERS:
        return ini_files.parser_method(run, receiver, name, arguments, place)
    if owner == ini_files.SECTION:
        return ini_files.section_method(run, receiver, name, arguments)
    if owner in (*PROCESSES, THREAD) and name == "start":
        return start(run, receiver, owner, place)
    if owner == EXECUTOR and name in ("submit", "map"):
        return submit(run, receiver, arguments, place, each=name == "map")
    if owner == "concurrent.futures.Future" and name == "result":
        return receiver.attributes.get("#result", Unknown())
    if owner == NAMESPACE:
        return _namespace_method(run, receiver, name, arguments, place)
    if owner == "io.TextIOWrapper" and name == "read":
        return receiver
    if owner == "contextlib.ExitStack" and name == "enter_context":
        return _enter_for_good(run, arguments, place)
    return None


def _enter_for_good(run: Run, arguments: Arguments, place: Place) -> Value:
    value = arguments.get(0) or Unknown()
    start_block(run, resolve(value, run.path), place)
    return value


def _partial(run: Run, arguments: Arguments, place: Place) -> Value:
    if not arguments.positional:
        return Unknown()
    rest = Arguments(arguments.positional[1:], arguments.named, arguments.open)
    return Partial(arguments.positional[0], rest, place)


def _method_caller(run: Run, arguments: Arguments, place: Place) -> Value:
    """operator.methodcaller("cuda", 1)(x) is x.cuda(1), and happens where it is called."""
    name = arguments.get(0)
    if not isinstance(name, Const):
        return Unknown()
    rest = Arguments(arguments.positional[1:], arguments.named, arguments.open)

    def invoke(given: Arguments, where: Place) -> Value:
        receiver = resolve(given.get(0) or Unknown(), run.path)
        return call(run, get_attribute(run, receiver, str(name.value), where), rest, where)

    return Native(invoke)


def _attribute_getter(run: Run, arguments: Arguments, place: Place) -> Value:
    name = arguments.get(0)

    def invoke(given: Arguments, where: Place) -> Value:
        receiver = resolve(given.get(0) or Unknown(), run.path)
        return get_attribute(run, receiver, str(name.value), where)  # type: ignore[union-attr]

    return Native(invoke) if isinstance(name, Const) else Unknown()


def _decorator(run: Run, arguments: Arguments, place: Place) -> Value:
    """functools.wraps(f), functools.lru_cache(maxsize=1): a decorator that changes nothing."""
    return Unknown()


def _cached(run: Run, arguments: Arguments, place: Place) -> Value:
    given = arguments.get(0)
    return given if isinstance(given, (Function, Class, Method)) else Unknown()


def _record(run: Run, arguments: Arguments, place: Place) -> Value:
    given = arguments.get(0)
    return given if given is not None else Object(Name("dataclasses.dataclass"), {}, place)


def _field(run: Run, arguments: Arguments, place: Place) -> Value:
    factory = arguments.named.get("default_factory", arguments.named.get("factory"))
    if factory is not None:
        return Object(None, {"#factory": factory}, place)
    default = arguments.named.get("default")
    return Unknown() if default is None else Object(None, {"#default": default}, place)


def _replace(run: Run, arguments: Arguments, place: Place) -> Value:
    value = resolve(arguments.get(0) or Unknown(), run.path)
    if isinstance(value, Object):
        return Object(value.cls, {**value.attributes, **arguments.named}, place)
    return Unknown()


def _as_dict(run: Run, arguments: Arguments, place: Place) -> Value:
    value = resolve(arguments.get(0) or Unknown(), run.path)
    return Dict(dict(value.attributes)) if isinstance(value, Object) else Dict({}, open=True)


def _fields(run: Run, arguments: Arguments, place: Place) -> Value:
    """dataclasses.fields(Config)."""
    given = resolve(arguments.get(0) or Unknown(), run.path)
    cls = given.cls if isinstance(given, Object) else given
    if not isinstance(cls, Class):
        return Sequence((), "tuple", open=True)
    made = tuple(Object(None, {"name": Const(name)}, place) for name in cls.fields)
    return Sequence(made, "tuple")


def _named_tuple(run: Run, arguments: Arguments, place: Place) -> Value:
    fields = resolve(arguments.get(1, "field_names") or Unknown(), run.path)
    cls = Class("namedtuple", (Name(NAMED_TUPLE),), {}, run.frame.module, place)
    names: list[str] = []
    if isinstance(fields, Const) and isinstance(fields.value, str):
        names = fields.value.replace(",", " ").split()
    elif isinstance(fields, Sequence):
        names = [str(item.value) for item in fields.items if isinstance(item, Const)]
    cls.fields, cls.dataclass = tuple(names), True
    return cls


def _simple_namespace(run: Run, arguments: Arguments, place: Place) -> Value:
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


def _namespace_method(
    run: Run, receiver: Object, name: str, arguments: Arguments, place: Place
) -> Value | None:
    """Configuration objects are dictionaries too: cfg.get("gpu", 0), cfg.clone() ..."""
    if name in ("clone", "copy", "deepcopy"):
        return copied(receiver, run, 0)
    if name in ("merge_from_file", "merge_from_list"):
        _override(run, receiver, "")
        return Const(None)
    method = native_method(run, Dict(receiver.attributes), name)
    return method.call(arguments, place) if isinstance(method, Native) else None


def _override(run: Run, config: Object, above: str) -> None:
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
            merged = {key: copied(held, run, 0) for key, held in merged.items()}
            _override(run, Object(Name(NAMESPACE), merged), "")
        if isinstance(value, Dict):
            value = _nested(value, place)
        for key, held in value.attributes.items() if isinstance(value, Object) else ():
            before = merged.get(key)
            if isinstance(before, Object) and isinstance(held, Object):
                held = _merge(run, Arguments((before, held)), place)
            merged[key] = held
    return Object(Name(NAMESPACE), merged, place)


def _dict_subclass(run: Run, arguments: Arguments, place: Place) -> Value:
    return call_builtin(run, "dict", arguments, place)


def _default_dict(run: Run, arguments: Arguments, place: Place) -> Value:
    return Dict(dict(arguments.named), open=True)


def _copy(run: Run, arguments: Arguments, place: Place) -> Value:
    return copied(resolve(arguments.get(0) or Unknown(), run.path), run, 0)


def copied(value: Value, run: Run, depth: int) -> Value:
    """copy.deepcopy: an object of its own, so that moving it does not move the first."""
    if depth > 6:
        return value
    if isinstance(value, Object):
        attributes = {
            key: copied(resolve(held, run.path), run, depth + 1)
            for key, held in value.attributes.items()
        }
        return Object(value.cls, attributes, value.origin)
    if isinstance(value, Dict):
        return copy_of(value)
    if isinstance(value, Sequence):
        return Sequence(value.items, value.kind, open=value.open)
    return value


def _exit(run: Run, arguments: Arguments, place: Place) -> Value:
    raise Dead(exits=True)


def open_file(run: Run, arguments: Arguments, place: Place) -> Value:
    path = arguments.get(0, "file")
    attributes: dict[Any, Value] = {} if path is None else {"#file": path}
    return Object(Name("io.TextIOWrapper"), attributes, place)


LARGEST_CONFIG = 1 << 17  # bytes; PyYAML reads some 100 KB a second


def _from_file(parse: Callable[[str], Any]) -> Standard:
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
        for folder in run.trace.entry.roots:
            data = run.project.data_file(folder / path.value)
            if data is None or len(data) > LARGEST_CONFIG:
                continue
            try:
                return value_of(parse(data.decode("utf-8")), place, option)
            except (ValueError, RecursionError):
                continue
        return Unknown()

    return load


def value_of(
    data: Any, place: Place, option: Unknown | None = None, made: dict[int, Value] | None = None
) -> Value:
    """The abstract value of plain data; what YAML's aliases share is shared here too.

    option: the command-line option that names the file, whose default was read.
    """
    made = {} if made is None else made
    known = made.get(id(data))
    if known is not None:
        return known
    if isinstance(data, dict):
        entries = made[id(data)] = Dict({})
        for key, item in data.items():
            entries.entries[key] = value_of(item, place, option, made)
        return entries
    if isinstance(data, (list, tuple)):
        made[id(data)] = Unknown()  # a list in itself
        items = tuple(value_of(item, place, option, made) for item in data[:64])
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


def _namespace_file(run: Run, arguments: Arguments, place: Place) -> Value:
    return _nested(_from_file(read_yaml)(run, arguments, place), place)


def read_yaml(text: str | bytes) -> Any:
    """Raises ValueError for what is no YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _join_path(run: Run, arguments: Arguments, place: Place) -> Value:
    parts = [resolve(value, run.path) for value in arguments.positional]
    if parts and all(isinstance(p, Const) and isinstance(p.value, str) for p in parts):
        return Const(str(Path(*(p.value for p in parts if isinstance(p, Const)))))
    return Unknown()


def _dirname(run: Run, arguments: Arguments, place: Place) -> Value:
    value = resolve(arguments.get(0) or Unknown(), run.path)
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(str(Path(value.value).parent))
    return Unknown()


def _same_path(run: Run, arguments: Arguments, place: Place) -> Value:
    value = resolve(arguments.get(0) or Unknown(), run.path)
    return value if isinstance(value, (Const, Text)) else Unknown()


def _import_module(run: Run, arguments: Arguments, place: Place) -> Value:
    """importlib.import_module("jobs." + name), import_module(f".{name}", package="jobs")."""
    package = resolve(arguments.get(1, "package") or Unknown(), run.path)

    def load(name: str) -> Value:
        if not name.startswith("."):
            return import_module(run, name)
        if not isinstance(package, Const) or not isinstance(package.value, str):
            return Unknown()
        parts = package.value.split(".")
        above = len(name) - len(name.lstrip(".")) - 1
        return import_module(run, ".".join(parts[: len(parts) - above]) + "." + name.lstrip("."))

    return of_text(resolve(arguments.get(0, "name") or Unknown(), run.path), load)


def _locate(run: Run, arguments: Arguments, place: Place) -> Value:
    """pydoc.locate("package.module.Class")."""
    path = resolve(arguments.get(0, "path") or Unknown(), run.path)
    return of_text(path, lambda dotted: by_dotted_path(run, dotted, place))


def by_dotted_path(run: Run, dotted: str, place: Place) -> Value:
    """What a dotted path leads to: the longest module there is, then its attributes."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if run.project.find(module, run.frame.module) is not None:
            value = import_module(run, module)
            for name in parts[length:]:
                value = resolve(get_attribute(run, value, name, place), run.path)
            return value
    return Name(run.apis.canonical(dotted))


def _structured(run: Run, arguments: Arguments, place: Place) -> Value:
    """OmegaConf.structured(Config): an instance of a dataclass, that the command line can set."""
    given = arguments.get(0) or Unknown()
    return call_with_options(run, given, place) if isinstance(given, Class) else given


def _add_to_search_path(run: Run, arguments: Arguments, place: Place) -> Value:
    """sys.path.append("lib"), sys.path.insert(0, ...): a constant folder is searched from here."""
    value = resolve(arguments.positional[-1], run.path) if arguments.positional else Unknown()
    if isinstance(value, Const) and isinstance(value.value, str):
        module = run.frame.module
        for base in (module.path.parent, *module.roots[:1]):
            folder = (base / value.value).resolve()
            if folder.is_dir():
                run.project.search_also(folder)
    return Const(None)


def _format(run: Run, arguments: Arguments, place: Place) -> Value:
    return operators.join_text(arguments.positional[:1], place)


_FUNCTIONS: dict[str, Standard] = {
    "functools.partial": _partial,
    "functools.partialmethod": _partial,
    "functools.wraps": _decorator,
    "functools.lru_cache": _cached,
    "functools.cache": _cached,
    "operator.methodcaller": _method_caller,
    "operator.attrgetter": _attribute_getter,
    "dataclasses.dataclass": _record,
    "attr.s": _record,
    "attrs.define": _record,
    "dataclasses.field": _field,
    "attr.ib": _field,
    "attrs.field": _field,
    "dataclasses.fields": _fields,
    "dataclasses.replace": _replace,
    "dataclasses.asdict": _as_dict,
    "collections.namedtuple": _named_tuple,
    "collections.OrderedDict": _dict_subclass,
    "collections.defaultdict": _default_dict,
    "types.SimpleNamespace": _simple_namespace,
    "argparse.Namespace": _simple_namespace,
    "easydict.EasyDict": _simple_namespace,
    "omegaconf.OmegaConf.create": _simple_namespace,
    "munch.Munch": _simple_namespace,
    "addict.Dict": _simple_namespace,
    "box.Box": _simple_namespace,
    "dotmap.DotMap": _simple_namespace,
    "ml_collections.ConfigDict": _simple_namespace,
    "yacs.config.CfgNode": _simple_namespace,
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
    "sys.exit": _exit,
    "os._exit": _exit,
    "os.abort": _exit,
    "builtins.open": open_file,
    "io.open": open_file,
    "codecs.open": open_file,
    "json.load": _from_file(json.loads),
    "yaml.safe_load": _from_file(read_yaml),
    "yaml.load": _from_file(read_yaml),
    "yaml.full_load": _from_file(read_yaml),
    "json.loads": _from_file(json.loads),
    "omegaconf.OmegaConf.load": _namespace_file,
    "omegaconf.OmegaConf.merge": _merge,
    "omegaconf.OmegaConf.to_container": _as_dict,
    "os.path.join": _join_path,
    "os.path.dirname": _dirname,
    "os.path.abspath": _same_path,
    "os.path.realpath": _same_path,
    "os.path.expanduser": _same_path,
    "pathlib.Path": _join_path,
    "importlib.import_module": _import_module,
    "pydoc.locate": _locate,
    "hydra.utils.get_class": _locate,
    "hydra.utils.get_method": _locate,
    "hydra.utils.get_object": _locate,
    "omegaconf.OmegaConf.structured": _structured,
    "sys.path.append": _add_to_search_path,
    "sys.path.insert": _add_to_search_path,
    "typing.cast": lambda run, arguments, place: arguments.get(1) or Unknown(),
    "argparse.ArgumentParser": new_parser,
    "builtins.format": _format,
}
