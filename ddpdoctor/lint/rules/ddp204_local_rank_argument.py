"""DDP204: the GPU index comes from a --local_rank argument, which torchrun never sets."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.local_ranks import is_spawned
from ddpdoctor.lint.rewrites import environment_default
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Device, Index, Role, Value
from ddpdoctor.lint.wrapping import named_devices


def check(trace: Trace) -> Iterator[Draft]:
    if any(trace.of("launcher")):
        return  # the program is made for a launcher that passes the argument
    seen: set[int] = set()
    for event in trace.events:
        if not trace.is_distributed(event, numbered=True) or trace.is_isolated(event):
            continue
        for value in named_devices(event):
            index = _argument(trace, event, value)
            if index is None or index.origin is None or id(index.origin.node) in seen:
                continue
            seen.add(id(index.origin.node))
            yield Draft(
                "DDP204",
                index.origin,
                "the GPU index is taken from this argument, which torchrun never sets",
                Severity.WARNING,
                behaviour="under torchrun "
                + (
                    "the program stops, as the argument is required; "
                    if index.argument is not None and index.argument.default is None
                    else "every rank keeps the default and uses the same GPU; "
                )
                + "right only under a launcher that passes the argument",
                symptom="all ranks on one GPU; NCCL hangs or reports a duplicate GPU",
                repair="read the local rank from the environment: int(os.environ['LOCAL_RANK'])",
                related=((event.place, "used as the GPU index here"),),
                fix=None
                if is_spawned(event)
                else environment_default(trace, index.origin, safe=True),
            )


def _argument(trace: Trace, event: Event, value: Value) -> Index | None:
    """The index, where it is such an argument on every path."""
    found: Index | None = None
    for leaf in trace.alternatives(event, value):
        for index in trace.alternatives(event, leaf.index if isinstance(leaf, Device) else leaf):
            if not (isinstance(index, Index) and index.role is Role.LOCAL_ARGUMENT):
                return None
            found = found or index
    return found
