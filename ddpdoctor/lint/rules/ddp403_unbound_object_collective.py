"""DDP403: an object collective in an unbound process, or with GPU tensors in what it sends."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Device


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("objects"):
        if not trace.is_distributed(event):
            continue
        if _sends_gpu_tensors(trace, event):
            yield Draft(
                "DDP403",
                event.place,
                "the objects that are sent hold tensors on a GPU",
                behaviour="a pickled tensor comes back on the GPU of the rank that sent it",
                symptom="every rank holds memory on the sender's GPU, or \"Expected all tensors to "
                'be on the same device"',
                repair="send tensors on the CPU (x.cpu()), or use a collective for tensors",
            )
        elif event.device is None and trace.needs_current_device(event):
            yield Draft(
                "DDP403",
                event.place,
                "objects are sent through the current device, and this process was never bound "
                "to one",
                behaviour="every rank puts its bytes on cuda:0",
                symptom="a hang, NCCL's duplicate GPU, and memory of every rank on GPU 0",
                repair="call torch.cuda.set_device(local_rank) first",
                fix=bind_first_group(trace, event),
            )


def _sends_gpu_tensors(trace: Trace, event: Event) -> bool:
    for device in event.detail["payload_devices"]:
        leaves = trace.alternatives(event, device)
        if all(isinstance(leaf, Device) and leaf.kind == "cuda" for leaf in leaves):
            return True
    return False
