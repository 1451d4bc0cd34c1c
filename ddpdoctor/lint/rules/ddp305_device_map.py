"""DDP305: device_map puts the model on a constant GPU, or over all of them, in every process."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpdoctor.findings import Severity
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.rewrites import map_to_own_gpu
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace, is_constant
from ddpdoctor.lint.values import Const, Device, Dict, Place, Unknown, Value

_SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("device_map"):
        if not trace.is_distributed(event, surely=False):
            continue
        leaves = trace.alternatives(event, event.detail["map"])
        kinds = [_kind(trace, event, leaf) for leaf in leaves]
        if None in kinds:
            continue
        spread = all(kind == "spread" for kind in kinds)
        if spread and not trace.is_distributed(event):
            continue  # one process with the model over all GPUs is what "auto" is for
        written = _written(leaves) or event.place
        yield Draft(
            "DDP305",
            written,
            "device_map spreads the model over all GPUs in every process"
            if spread
            else "device_map puts the model on one and the same GPU in every process",
            Severity.WARNING,
            behaviour="every rank loads over the same GPUs"
            if spread
            else "every rank loads on the same GPU",
            symptom="out of memory on GPU 0, or \"You can't train a model that has been loaded "
            "with `device_map='auto'` in any distributed mode\"; right while one process runs",
            repair='device_map={"": local_rank}, or leave device_map out and let the trainer place '
            "the model",
            related=((event.place, "takes effect here"),) if written != event.place else (),
            fix=map_to_own_gpu(trace, event),
        )


def _written(leaves: list[Value]) -> Place | None:
    """Where the device map's value stands, if it is written down as a constant."""
    for leaf in leaves:
        values = list(leaf.entries.values()) if isinstance(leaf, Dict) else [leaf]
        for value in values:
            if value.origin is not None:
                return value.origin
    return None


def _kind(trace: Trace, event: Event, leaf: Value) -> str | None:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        leaf = leaf.default
    if isinstance(leaf, Const) and leaf.value in _SPREADS:
        return "spread"
    if isinstance(leaf, Dict):
        if leaf.open:
            return None
        kinds = {
            _kind(trace, event, target)
            for value in leaf.entries.values()
            for target in trace.alternatives(event, value)
        }
        return "constant" if kinds == {"constant"} else None
    device = as_device(leaf, event.path)
    if not isinstance(device, Device) or device.kind != "cuda":
        return None
    if device.index is None:  # the current device
        is_first = trace.is_distributed(event) and trace.binding(event) == "unbound"
        return "constant" if is_first and not trace.is_isolated(event) else None
    if not is_constant(device.index):
        return None
    is_written = device.index.origin is not None and not isinstance(
        device.index.origin.node, cst.Call
    )
    # current_device() is what one process is told to write.
    return "constant" if is_written or trace.is_distributed(event) else None
