"""configparser: the files that a program reads its settings from, and what it takes otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ddpdoctor.lint.config_objects import read_config
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    Arguments,
    Const,
    Name,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)

PARSERS = ("configparser.ConfigParser", "configparser.RawConfigParser")
SECTION = "configparser.SectionProxy"


def _boolean(text: str) -> bool:
    import configparser  # seldom needed, and slow to import

    return configparser.ConfigParser.BOOLEAN_STATES[text.lower()]


_READ: dict[str, Callable[[str], Any]] = {
    "get": str,
    "getint": int,
    "getfloat": float,
    "getboolean": _boolean,
}


def parser_method(
    run: Run, parser: Object, name: str, arguments: Arguments, place: Place
) -> Value | None:
    """config.read("train.ini"), config.getint("train", "gpu", fallback=0)."""
    if name in ("read", "read_string"):
        given = resolve(arguments.get(0) or Unknown(), run.path)
        for text in _texts(run, given) if name == "read" else _plain(given):
            _fill(run, parser, text, place)
        return Unknown()
    if name in _READ:
        name_of_section = resolve(arguments.get(0, "section") or Unknown(), run.path)
        section = None
        if isinstance(name_of_section, Const):
            section = parser.attributes.get(name_of_section.value)
        rest = Arguments(arguments.positional[1:2], arguments.named)
        return _setting(run, section, name, rest)
    return None


def section_method(run: Run, section: Object, name: str, arguments: Arguments) -> Value | None:
    """config["train"].getint("gpu", 0)."""
    return _setting(run, section, name, arguments) if name in _READ else None


def _setting(run: Run, section: Value | None, name: str, arguments: Arguments) -> Value:
    key = resolve(arguments.get(0, "option") or Unknown(), run.path)
    if not isinstance(key, Const) or not isinstance(key.value, str):
        return Unknown()
    section = None if section is None else resolve(section, run.path)
    held = section.attributes.get(key.value.lower()) if isinstance(section, Object) else None
    if isinstance(held, Const):
        try:
            return Const(_READ[name](held.value), held.origin)
        except (ValueError, LookupError):
            return Unknown()
    fallback = resolve(arguments.get(1, "fallback") or Unknown(), run.path)
    if not isinstance(fallback, Const):
        return fallback
    # Of a file that is not seen only this is known: what holds where it says nothing.
    return Unknown(default=fallback, given=key.value, origin=fallback.origin)


def _texts(run: Run, paths: Value) -> Iterator[str]:
    for path in _plain(paths):
        data = read_config(run, run.trace.entry.roots, path)
        if data is not None:
            yield data.decode("utf-8", "replace")


def _plain(given: Value) -> Iterator[str]:
    for item in given.items if isinstance(given, Sequence) else (given,):
        if isinstance(item, Const) and isinstance(item.value, str):
            yield item.value


def _fill(run: Run, parser: Object, text: str, place: Place) -> None:
    import configparser

    read = configparser.ConfigParser()
    try:
        read.read_string(text)
        sections = {section: read.items(section) for section in read.sections()}
    except configparser.Error:
        return
    for section, settings in sections.items():
        values: dict[Any, Value] = {key: Const(value, place) for key, value in settings}
        run.heap.write(parser.attributes, section, Object(Name(SECTION), values, place))
