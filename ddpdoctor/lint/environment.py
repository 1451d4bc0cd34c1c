"""os.environ, as a rank of the job sees it: what the launcher sets, and what the program writes."""

from __future__ import annotations

from ddpdoctor.lint.library_values import RANKS, named_value
from ddpdoctor.lint.paths import or_else, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Const,
    Dict,
    Either,
    Object,
    Place,
    Unknown,
    Value,
    either,
)

MASK = "CUDA_VISIBLE_DEVICES"


def is_set(run: Run, name: Value) -> Value:
    """Whether a variable is set, as a value."""
    if not isinstance(name, Const):
        return Unknown()
    held = run.environment.entries.get(name.value, MISSING)
    if held is not MISSING and not isinstance(held, Either):
        return Const(True)
    word = run.apis.environment.get(name.value)
    if word is not None and not word.endswith("?"):
        run.record("question", name.value, run.place(run.frame.module.tree()))
        if word == "text" and not _launched(run):
            return Unknown(("environment", name.value))  # where to meet, people may say as well
        return Const(_launched(run))
    return Unknown(("environment", name.value))


def _launched(run: Run) -> bool:
    """Whether torchrun set the variables of this process: not of those that the program starts."""
    return run.torchrun and run.process.owner().kind != "spawned"


def read(run: Run, name: Value, default: Value | None) -> Value:
    """os.environ[name] without a default, os.environ.get(name, default) with one."""
    name = resolve(name, run.path)
    if not isinstance(name, Const):
        return Unknown()
    held = run.environment.entries.get(name.value, MISSING)
    if name.value in run.apis.environment:
        _note_lookup(run, name.value, required=default is None and held is MISSING)
    if name.value == MASK and _chooses_gpus(resolve(held, run.path)):
        return named_value(run, run.apis.environment[MASK].rstrip("?"))
    if held is not MISSING:
        return or_else(held, run.path, lambda: _from_launcher(run, name.value, default))
    return _from_launcher(run, name.value, default)


def _chooses_gpus(mask: Value) -> bool:
    """Whether the user names the GPUs of a mask: their numbers in it are then no indices, but for
    the default 0,1,2."""
    if not isinstance(mask, Unknown):
        return False
    if not isinstance(mask.default, Const):
        return True
    names = str(mask.default.value).split(",")
    return names != [str(index) for index in range(len(names))]


def _note_lookup(run: Run, name: str, *, required: bool) -> None:
    word = run.apis.environment[name].rstrip("?")
    place = run.place(run.frame.module.tree())
    run.record("lookup", name, place, required=required)
    if word in RANKS:
        run.record("asks", name, place, answer=word)


def _from_launcher(run: Run, name: str, default: Value | None) -> Value:
    word = run.apis.environment.get(name)
    if word is None or (not _launched(run) and not word.endswith("?")):
        origin = None if default is None else default.origin
        return Unknown(("variable", name), default=default, given=name, origin=origin)
    value = named_value(run, word.rstrip("?"))
    if isinstance(value, Unknown):
        value = Unknown(("variable", name))
    if word.endswith("?") and default is not None:
        # Set under some launchers only; without a default the program relies on it.
        return either(("true", ("environment", name)), None, value, default)
    return value


def number(run: Run, text: Value) -> Value:
    """What int() is given: int(os.environ.get(name)) fails without the variable, so that the
    program relies on it as with os.environ[name]."""
    text = resolve(text, run.path)
    if isinstance(text, Either) and isinstance(text.no, Const) and text.no.value is None:
        match text.key:
            case ("true", ("environment", str(name))):
                _note_lookup(run, name, required=True)
                return text.yes
    return text


def write(run: Run, name: Value, value: Value, place: Place) -> None:
    if not isinstance(name, Const):
        return
    if name.value == MASK:
        run.record("mask", MASK, place, value=value)
        if not _has_started(run):
            run.set_process("visible", value)
    elif name.value in run.apis.environment:
        given = named_value(run, run.apis.environment[name.value].rstrip("?"))
        run.record("variable", name.value, place, value=value, given=given)
    run.heap.write(run.environment.entries, name.value, value)


def _has_started(run: Run) -> bool:
    started = resolve(run.cell["started"], run.path)
    return isinstance(started, Const) and bool(started.value)


def unset(run: Run, name: Value) -> None:
    if isinstance(name, Const):
        run.heap.write(run.environment.entries, name.value, MISSING)


def call_method(run: Run, name: str, arguments: Arguments, place: Place) -> Value:
    """os.environ.get(...), .setdefault(...), .update(...), .pop(...), .copy() ..."""
    key = arguments.get(0, "key", "k")
    if name in ("get", "getenv", "pop") and key is not None:
        default = arguments.get(1, "default", "d")
        value = read(run, key, Const(None) if default is None else default)
        if name == "pop":
            unset(run, key)
        return value
    if name in ("setdefault", "putenv", "__setitem__") and key is not None:
        value = arguments.get(1, "default", "value") or Const(None)
        if name == "setdefault":
            if isinstance(key, Const) and key.value in run.apis.environment:
                return read(run, key, value)  # set by the launcher, so the default is not taken
            value = read(run, key, value)
        write(run, key, value, place)
        return value
    if name == "update":
        _update(run, arguments, place)
        return Const(None)
    if name in ("copy", "items", "keys"):
        return copied(run)
    return Unknown()


def copied(run: Run) -> Dict:
    """A dictionary of its own with what is known of the environment."""
    known = [name for name, word in run.apis.environment.items() if not word.endswith("?")]
    entries = {name: read(run, Const(name), None) for name in known} if _launched(run) else {}
    return Dict({**entries, **run.environment.entries}, open=True)


def _update(run: Run, arguments: Arguments, place: Place) -> None:
    given = arguments.get(0)
    if isinstance(given, (Dict, Object)):
        entries = given.entries if isinstance(given, Dict) else given.attributes
        for name, value in entries.items():
            write(run, Const(name), value, place)
    for name, value in arguments.named.items():
        write(run, Const(name), value, place)
