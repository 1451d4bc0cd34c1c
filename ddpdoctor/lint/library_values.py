"""What the names of libraries stand for, in the words of the tables in rules/apis."""

from __future__ import annotations

from ddpdoctor.lint.paths import map_value
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    Const,
    Device,
    Index,
    Name,
    Object,
    Role,
    Sequence,
    Text,
    Unknown,
    Value,
    either,
)


def of_library(run: Run, owner: str, name: str) -> Value:
    full = run.apis.canonical(f"{owner}.{name}")
    known = run.apis.values.get(full)
    if known is not None:
        return named_value(run, known)
    return Name(full)


def named_value(run: Run, word: str | list[str]) -> Value:
    """The value that a word of the API tables stands for; a list of them is a tuple."""
    if isinstance(word, list):
        return Sequence(tuple(named_value(run, each) for each in word), "tuple")
    word, optional, _ = word.partition("?")
    value = _named(run, word)
    if optional:
        return either(("set", word), None, value, Unknown())
    return value


# A program that asks for its rank, or for how many there are, is meant to be one of several.
RANKS = ("local_rank", "global_rank", "world_size")


def shared_object(name: str) -> Unknown:
    """The one object of a library that the program sets attributes of from anywhere."""
    return Unknown(("shared", name))


def current_index(run: Run) -> Value:
    """What torch.cuda.current_device() gives: 0 as long as nothing was bound."""
    return map_value(
        run.cell["current"],
        run.path,
        lambda index: Const(0) if isinstance(index, Const) and index.value is None else index,
    )


def _named(run: Run, word: str) -> Value:
    constants = {"true": True, "false": False, "none": None, "zero": 0}
    if word in constants:
        return Const(constants[word])
    roles = {
        "local_rank": Role.LOCAL,
        "global_rank": Role.GLOBAL,
        "world_size": Role.WORLD,
        "local_world_size": Role.LOCAL_WORLD,
        "device_count": Role.DEVICES,
    }
    if word in roles:
        return Index(roles[word])
    if word.startswith("'"):
        return Const(word.strip("'"))
    if word.startswith("object "):
        return Object(Name(word.partition(" ")[2]))
    if word.startswith("shared "):
        return shared_object(word.partition(" ")[2])
    if word == "physical":
        return Text((Index(Role.PHYSICAL),))
    if word == "cuda":
        return Device("cuda")
    if word == "cpu":
        return Device("cpu")
    if word == "cuda:0":
        return Device("cuda", Const(0))
    if word == "cuda:local":
        return Device("cuda", Index(Role.LOCAL))
    if word == "current_device":
        return current_index(run)
    if word == "cuda:current":
        return map_value(current_index(run), run.path, lambda index: Device("cuda", index))
    return Unknown()
