"""Room for programs that nest deeply."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from ddpdoctor.findings import DdpdoctorError

T = TypeVar("T")

_STACK = 512 << 20  # bytes, of which only what is used becomes real memory
_RECURSION = 200_000  # Python 3.10 takes some 0.5 KiB of C stack a call, and 2 KiB through C

# Trees are millions of objects that stay: by default the collector would go through all of them
# again and again, for an eighth of the time of a parse.
_ALLOCATIONS = 1_000_000


def with_deep_stack(work: Callable[[], T]) -> T:
    """Runs the work in a thread with a stack that deeply nested programs do not overflow."""
    results: list[T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the caller's thread, below
            errors.append(error)

    limit, threshold = sys.getrecursionlimit(), gc.get_threshold()
    size = threading.stack_size(_STACK)
    sys.setrecursionlimit(_RECURSION)
    gc.set_threshold(_ALLOCATIONS, *threshold[1:])
    try:
        # A daemon, so that an interrupt ends the program while the work still goes on.
        thread = threading.Thread(target=target, name="ddpdoctor-lint", daemon=True)
        thread.start()
        thread.join()
    except RuntimeError as error:
        raise DdpdoctorError(f"there is too little memory to start: {error}") from None
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
        gc.set_threshold(*threshold)
    if errors:
        raise errors[0]
    return results[0]
