"""DDP104: a checkpoint that every rank loads without saying where to."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.placements import map_to_cpu
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Unknown


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("load"):
        if not event.detail["used"] or event.arguments.open:
            continue
        if not trace.is_distributed(event) or not _unmapped(trace, event):
            continue
        keyword = event.detail["api"].keyword("map")
        yield Draft(
            "DDP104",
            event.place,
            f"every rank loads this checkpoint without {keyword}",
            Severity.WARNING,
            behaviour="each rank restores the tensors to the GPU they were saved from, "
            "usually cuda:0",
            symptom="every rank holds memory on GPU 0 beside its own, and GPU 0 runs out first; "
            "harmless if the checkpoint was saved from the CPU",
            repair=f'load with {keyword}="cpu"; load_state_dict then copies to each rank\'s GPU',
            fix=map_to_cpu(trace, event, keyword),
        )


def _unmapped(trace: Trace, event: Event) -> bool:
    mapping = event.detail["map"]
    if mapping is None:
        return True
    return all(_is_none(leaf) for leaf in trace.alternatives(event, mapping))


def _is_none(leaf: object) -> bool:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        leaf = leaf.default
    return isinstance(leaf, Const) and leaf.value is None
