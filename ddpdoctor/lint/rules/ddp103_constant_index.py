"""DDP103: a constant GPU index, the same on every rank."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpdoctor.findings import Severity
from ddpdoctor.lint.rewrites import write_device
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.tensors import UNBOUND_INDEX
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Place, Unknown


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of(
        "place", "create", "default", "load", "bind", "context", "group", "shard"
    ):
        constant = trace.constant_index(event, event.device)
        if constant is None or not trace.is_distributed(event) or trace.is_isolated(event):
            continue
        if trace.asked_in_thread(constant):
            continue  # DDP209: the thread has no device of its own
        if constant is UNBOUND_INDEX:
            continue  # it follows a tensor, whose own move is reported
        option = constant.given if isinstance(constant, Unknown) else None
        number = constant.default if isinstance(constant, Unknown) else constant
        written = constant.origin or event.place
        related: tuple[tuple[Place, str], ...] = ()
        if written != event.place:
            related = ((event.place, "takes effect here"),)
        what = f"the default of {option}" if option else "a constant"
        if constant.origin and isinstance(written.node, cst.Call) and not option:
            what = "what this call gives before the process is bound"
        if constant.origin is None and event.kind == "create" and event.detail["given"] is None:
            what = f"the default of {event.name}()"
        verb = "binds the process" if event.kind == "bind" else "goes"
        yield Draft(
            "DDP103",
            written,
            f"{what} is used as the GPU index: it is {getattr(number, 'value', 0)} on every rank",
            Severity.WARNING if option else Severity.ERROR,
            behaviour=f"on every rank this {verb} to cuda:{getattr(number, 'value', 0)}",
            symptom="all ranks meet on one GPU: it runs out of memory, NCCL hangs or reports a "
            'duplicate GPU, or "Expected all tensors to be on the same device"',
            repair="use the local rank: int(os.environ['LOCAL_RANK']), or \"cuda\" once "
            "torch.cuda.set_device(local_rank) was called",
            related=related,
            fix=write_device(trace, event, written),
        )
