"""DDP102: "cuda" without an index in a process that is not bound to its GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Const


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("place", "create", "default", "load"):
        given = event.detail.get("given", event.detail.get("map"))
        bare = given is None or (isinstance(given, Const) and given.value is None)
        if event.kind == "place" and bare:
            continue  # DDP101
        if event.process.kind == "thread" or not trace.unindexed(event):
            continue
        yield Draft(
            "DDP102",
            event.place,
            '"cuda" without an index, and this process was never bound to its own GPU',
            behaviour='on every rank "cuda" means cuda:0 here, the current device of a process '
            "that chose none",
            symptom="all ranks show up on GPU 0 in nvidia-smi; NCCL hangs or reports a duplicate "
            'GPU, or "Expected all tensors to be on the same device"',
            repair="call torch.cuda.set_device(local_rank) before anything touches CUDA",
            fix=bind_first_group(trace, event),
        )
