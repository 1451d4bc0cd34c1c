"""A thread of its own starts with the mode on: modes belong to the thread that entered them."""

from __future__ import annotations

import threading

from ddpdoctor.virtual.mode import PlacementMode, Placer
from ddpdoctor.virtual.patches import Patches


def install(placer: Placer, patches: Patches) -> None:
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def _bootstrap_inner(self: threading.Thread) -> None:
        # Not run(), which programs override.
        with PlacementMode(placer):
            bootstrap(self)

    patches.set(threading.Thread, "_bootstrap_inner", _bootstrap_inner)
