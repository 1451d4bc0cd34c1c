"""Training as progress: optimizer steps, DDP forwards, batches, backward, and the last loss."""

from __future__ import annotations

import atexit
import functools
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from ddpdoctor.probe.agent.collectives import DEFAULT_GROUP
from ddpdoctor.probe.progress import ProgressWriter
from ddpdoctor.probe.records import Recorder

# Where DDP's own collectives run: it compares the ranks' parameters, and reduces the gradients.
CONSTRUCTION = "DistributedDataParallel's constructor"
BACKWARD = "DistributedDataParallel's backward"


def install(recorder: Recorder, progress: ProgressWriter) -> None:
    wrapped = [0]  # DDP instances
    backwards = [0]
    losses: list[torch.Tensor] = []

    on_step: Any = register_optimizer_step_post_hook
    on_step(lambda *_: progress.step())

    construct: Any = DistributedDataParallel.__init__
    forward: Any = DistributedDataParallel.forward

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        wrapped[0] += 1
        progress.enter(CONSTRUCTION, wrapped[0], DEFAULT_GROUP)
        construct(self, *args, **kwargs)
        progress.leave()

    @functools.wraps(forward)
    def counted_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        progress.work()
        return forward(self, *args, **kwargs)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    DistributedDataParallel.forward = counted_forward  # type: ignore[method-assign]

    backward = torch.autograd.backward

    @functools.wraps(backward)
    def counted_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            losses[:] = [tensors.detach()]  # read at the end: .item() would wait for the GPU
        backwards[0] += 1
        if wrapped[0]:
            progress.enter(BACKWARD, backwards[0], DEFAULT_GROUP)
        backward(tensors, *args, **kwargs)
        if wrapped[0]:
            progress.leave()

    setattr(torch.autograd, "backward", counted_backward)  # noqa: B010 - mypy refuses a plain one

    batches: Any = dataloader._BaseDataLoaderIter
    fetch = batches.__next__

    @functools.wraps(fetch)
    def counted_fetch(self: Any) -> Any:
        progress.work()
        return fetch(self)

    batches.__next__ = counted_fetch

    @atexit.register
    def ended() -> None:
        recorder.write("ended", loss=_value(losses))


def _value(losses: list[torch.Tensor]) -> float | None:
    if not losses:
        return None
    try:
        return float(losses[0])
    except RuntimeError:  # a CUDA error that came before: nothing can be read any more
        return None
