"""The standard library's functions that programs route values and calls through."""

from __future__ import annotations

from pathlib import Path

from ddpdoctor.lint import config_objects, ini_files, operators, spelled_names
from ddpdoctor.lint.attributes import get_attribute
from ddpdoctor.lint.branches import Dead
from ddpdoctor.lint.builtin_functions import call_builtin
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.config_objects import Standard
from ddpdoctor.lint.kinds.process import start_block
from ddpdoctor.lint.natives import copied
from ddpdoctor.lint.options import (
    NAMESPACE,
    PARSER,
    new_parser,
    parser_method,
)
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.processes import (
    EXECUTOR,
    PROCESSES,
    THREAD,
    start,
    submit,
)
from ddpdoctor.lint.run import Run
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
        return config_objects.namespace_method(run, receiver, name, arguments, place)
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
    rest = arguments.after_first()
    return Partial(arguments.positional[0], rest, place)


def _method_caller(run: Run, arguments: Arguments, place: Place) -> Value:
    """operator.methodcaller("cuda", 1)(x) is x.cuda(1), and happens where it is called."""
    name = arguments.get(0)
    if not isinstance(name, Const):
        return Unknown()
    rest = arguments.after_first()

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


def _dict_subclass(run: Run, arguments: Arguments, place: Place) -> Value:
    return call_builtin(run, "dict", arguments, place)


def _default_dict(run: Run, arguments: Arguments, place: Place) -> Value:
    return Dict(dict(arguments.named), open=True)


def _copy(run: Run, arguments: Arguments, place: Place) -> Value:
    return copied(run, resolve(arguments.get(0) or Unknown(), run.path))


def _exit(run: Run, arguments: Arguments, place: Place) -> Value:
    raise Dead(exits=True)


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
    **config_objects.FUNCTIONS,
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
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
    "sys.exit": _exit,
    "os._exit": _exit,
    "os.abort": _exit,
    "omegaconf.OmegaConf.to_container": _as_dict,
    "os.path.join": _join_path,
    "os.path.dirname": _dirname,
    "os.path.abspath": _same_path,
    "os.path.realpath": _same_path,
    "os.path.expanduser": _same_path,
    "pathlib.Path": _join_path,
    "importlib.import_module": spelled_names.import_by_name,
    "pydoc.locate": spelled_names.locate,
    "hydra.utils.get_class": spelled_names.locate,
    "hydra.utils.get_method": spelled_names.locate,
    "hydra.utils.get_object": spelled_names.locate,
    "sys.path.append": _add_to_search_path,
    "sys.path.insert": _add_to_search_path,
    "typing.cast": lambda run, arguments, place: arguments.get(1) or Unknown(),
    "argparse.ArgumentParser": new_parser,
    "builtins.format": _format,
}
