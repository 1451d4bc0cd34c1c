"""Who opened a context on which real GPU. Virtual GPUs write this into their ledger themselves."""

from __future__ import annotations

import functools
import sys
import threading
import time
from typing import Any

import torch

import ddpdoctor.virtual
from ddpdoctor.probe.agent.user_code import has_virtual_gpus, stack, user_place
from ddpdoctor.probe.records import Recorder

_INTERVAL_SECONDS = 0.02


def install(recorder: Recorder) -> None:
    cuda: Any = torch.cuda
    if has_virtual_gpus():
        ddpdoctor.virtual.on_context(lambda _: recorder.introduce())
        return
    if torch.version.cuda is None:
        return
    start = cuda._lazy_init

    # C++ calls this one, too, at the first CUDA use of the process.
    @functools.wraps(start)
    def _lazy_init() -> None:
        first = not cuda.is_initialized()
        start()
        if first and cuda.is_initialized():
            place = user_place(stack(sys._getframe(1)))
            recorder.write("cuda", place=place, visible=_visible())
            threading.Thread(target=_watch, args=(recorder,), daemon=True).start()

    cuda._lazy_init = _lazy_init


def _visible() -> list[str]:
    """UUIDs of the visible devices by CUDA device index, without NVML's "GPU-" or "MIG-"."""
    count = torch.cuda.device_count()
    return [str(torch.cuda.get_device_properties(index).uuid) for index in range(count)]


def _watch(recorder: Recorder) -> None:
    """Record each new context with the line that the main thread is in.

    Creating a context takes the driver 100 ms and more, so a look every 20 ms finds the line that
    asked for it or the one right after it.
    """
    main = threading.main_thread().ident
    has_context: Any = torch._C._cuda_hasPrimaryContext  # type: ignore[attr-defined]
    waiting = set(range(torch.cuda.device_count()))
    while waiting and main is not None:
        # The frame before the question: the answer may have changed under a later line.
        frame = sys._current_frames().get(main)
        for index in sorted(waiting):
            if has_context(index):
                waiting.discard(index)
                recorder.write("context", device=index, place=user_place(stack(frame)))
        del frame
        time.sleep(_INTERVAL_SECONDS)
