"""Questions that ask whether there is one GPU a machine, and so one rank.

Lint looks at a rank with others beside it on its machine. What a program does for one GPU a machine
(where a constant index is right, on several machines too) is nothing that such a rank does. What a
library counts is known to be more than one; what the user counts is known by its name.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

from ddpdoctor.lint.values import Const, Not, Unknown, Value

# --ngpu, cfg.NUM_GPUS, gpus_per_node, nprocs; not --gpu, which is an index, nor world_size, by
# which PyTorch's own example means machines.
_COUNT = re.compile(
    r"(n|num|number)_?(of_?)?(gpu|device)s?|(gpu|device)s?_?(num|number|count)|gpus|devices"
    r"|n_?procs?|\w+_per_(node|machine|host)",
    re.IGNORECASE,
)
_ONE_GPU = "one GPU"


def asks_for_one_gpu(operator: str, left: Unknown, number: object) -> Value | None:
    """`args.ngpu <= 1` and the like, with one key in all spellings; None for other questions.

    By default only more than one is known: a job with several ranks a machine was told so.
    """
    one = (operator, number) in (("==", 1), ("<=", 1), ("<", 2))
    several = (operator, number) in ((">", 1), (">=", 2))
    if not (one or several) or not _COUNT.fullmatch(_name(left)):
        return None
    default = left.default
    known = isinstance(default, Const) and isinstance(default.value, int) and default.value > 1
    question = Unknown((_ONE_GPU, left.key), default=Const(False) if known else None)
    return question if one else Not(question)


def has_one_gpu(path: Mapping[Hashable, object]) -> bool:
    """Whether there is one GPU a machine on a path."""
    for key, answer in path.items():
        if answer is True and isinstance(key, tuple):
            about = key[-1]  # ("true", the key of what is true)
            if isinstance(about, tuple) and about[0] == _ONE_GPU:
                return True
    return False


def _name(value: Unknown) -> str:
    key = value.key
    name = value.given or (key[-1] if isinstance(key, tuple) and key else None)
    return str(name).rpartition(".")[2].lstrip("-").replace("-", "_")
