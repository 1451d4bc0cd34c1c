"""DDP401: a barrier before anything tells NCCL which GPU this rank uses."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("barrier"):
        if _is_given(event, "device_ids") or not trace.needs_current_device(event):
            continue
        # NCCL takes the device of an earlier collective; wrapping a module broadcasts it.
        if any(other.kind in ("collective", "wrap", "shard") for other in trace.before(event)):
            continue
        yield Draft(
            "DDP401",
            event.place,
            "barrier() has to guess the GPU: the process is not bound and nothing was sent yet",
            Severity.INFO,
            behaviour="NCCL takes global rank % device count, which is the rank's own GPU only "
            "where every machine has as many ranks as GPUs",
            symptom='a warning "using GPU 0 as device used by this process is currently unknown"; '
            "where the guess is wrong, a context on another rank's GPU or a hang",
            repair="call torch.cuda.set_device(local_rank) first, or pass device_ids=[local_rank]",
            fix=bind_first_group(trace, event),
        )


def _is_given(event: Event, name: str) -> bool:
    value = event.detail[name]
    return value is not None and not (isinstance(value, Const) and value.value is None)
