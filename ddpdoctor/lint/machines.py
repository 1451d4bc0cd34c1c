"""The machines of a job: whether it has one rank on each, so that a constant index is right.

Some clusters start one process a machine, numbered as the machines are.
"""

from __future__ import annotations

from ddpdoctor.lint.paths import leaves, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import Const, Unknown, Value


def is_alone_on_machine(run: Run, size: Value | None = None, rank: Value | None = None) -> bool:
    """Whether the job that is opened now has one process on this machine, as the arguments or the
    program's own WORLD_SIZE and RANK say: it is of one process, or of as many as machines."""
    size = size or run.environment.entries.get("WORLD_SIZE", Unknown())
    rank = rank or run.environment.entries.get("RANK", Unknown())
    sizes = [leaf for leaf, _ in leaves(size, run.path)]
    return (
        all(isinstance(leaf, Const) and str(leaf.value) == "1" for leaf in sizes)
        or _is_of_machines(run, size, "count")
        or _is_of_machines(run, rank, "number")
    )


def _is_of_machines(run: Run, value: Value, word: str) -> bool:
    """Whether a value counts machines, or numbers them, wherever it is no constant."""
    found = [leaf for leaf, _ in leaves(value, run.path) if not isinstance(leaf, Const)]
    return bool(found) and all(_of_machines(run, leaf) == word for leaf in found)


def _of_machines(run: Run, value: Value | None) -> str | None:
    """What a value says of this machine among those of the job: its "number" or "name", or the
    "count" of them all."""
    if not isinstance(value, Unknown):
        return None
    match value.key:
        case ("variable", str(name)) if name in run.apis.machines:
            return run.apis.machines[name]
        case ("place of machine", _):
            return "number"
    return _of_machines(run, value.default)


def place_in_list(run: Run, item: Value | None) -> Value:
    """What hosts.index(item) gives: the number of this machine where the item is its name."""
    item = None if item is None else resolve(item, run.path)
    if isinstance(item, Unknown) and _of_machines(run, item) == "name":
        return Unknown(("place of machine", item.key))
    return Unknown()
