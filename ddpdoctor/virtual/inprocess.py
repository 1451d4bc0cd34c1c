"""Virtual GPUs in this process: a context manager."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ddpdoctor.virtual.devices import Machine, parse_memory
from ddpdoctor.virtual.environment import environment


@contextmanager
def gpus(count: int, memory: int | str = "80GiB") -> Iterator[None]:
    """Within the block torch has `count` CUDA devices of that size, and so have processes it
    starts.

    Raises ValueError for a count or size that no machine has, RuntimeError inside another such
    block.
    """
    size = parse_memory(memory)
    if count < 1:
        raise ValueError(f"a machine with virtual GPUs has at least one, not {count}")
    from ddpdoctor.virtual.switch import switch_off, switch_on

    with tempfile.TemporaryDirectory(prefix="ddpdoctor-ledger-") as ledger:
        outside = dict(os.environ)
        switch_on(Machine(count, size, ledger))
        os.environ.update(environment(count, size, ledger))
        try:
            yield
        finally:
            switch_off()
            os.environ.clear()
            os.environ.update(outside)
