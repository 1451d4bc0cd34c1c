"""DDP101: `.cuda()` without an index in a process that is not bound to its GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Const


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("place"):
        given = event.detail.get("given")
        bare = given is None or (isinstance(given, Const) and given.value is None)
        if not bare or event.process.kind == "thread" or not trace.unindexed(event):
            continue
        yield Draft(
            "DDP101",
            event.place,
            "`.cuda()` without an index, and this process was never bound to its own GPU",
            behaviour="every rank puts it on cuda:0, which is current in a process that chose none",
            symptom="all ranks show up on GPU 0 in nvidia-smi; NCCL hangs or reports a duplicate "
            'GPU, or "Expected all tensors to be on the same device"',
            repair="call torch.cuda.set_device(local_rank) before anything touches CUDA",
            fix=bind_first_group(trace, event),
        )
