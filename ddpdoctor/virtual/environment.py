"""The environment that gives a child process, and all it starts, virtual GPUs and hooks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddpdoctor.virtual import ledger as ledgers
from ddpdoctor.virtual.devices import (
    COUNT_VARIABLE,
    DEFAULT_MEMORY,
    HOOKS_VARIABLE,
    LEDGER_VARIABLE,
    MAX_COUNT,
    MEMORY_VARIABLE,
    Machine,
)

INJECT = str(Path(__file__).resolve().parent / "inject")


def environment(
    count: int,
    memory_bytes: int = DEFAULT_MEMORY,
    ledger: str | Path | None = None,
    hooks: Sequence[str] = (),
    base: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The full environment for a subprocess whose torch sees `count` virtual GPUs.

    count 0 means no virtual GPUs, only the hooks: "module:function" strings, called in order right
    after `import torch` completes in each process. ledger: the folder where the processes write
    what they hold; it is created here. Raises ValueError for a count that no machine has.
    """
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"a machine has 0 to {MAX_COUNT} virtual GPUs, not {count}")
    child = dict(base)
    child[COUNT_VARIABLE] = str(count)
    child[MEMORY_VARIABLE] = str(memory_bytes)
    child[HOOKS_VARIABLE] = ",".join(hooks)
    child.pop(LEDGER_VARIABLE, None)
    if ledger is not None:
        child[LEDGER_VARIABLE] = str(Path(ledger).resolve())
        ledgers.create(ledger, Machine(count, memory_bytes).devices())
    paths = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path != INJECT]
    child["PYTHONPATH"] = os.pathsep.join([INJECT, *filter(None, paths)])
    return child
