"""DDP207: the number of a physical GPU is used as an index although a mask renumbers the GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ddpdoctor.findings import Severity
from ddpdoctor.lint.operators import by_default
from ddpdoctor.lint.repairs import Repair
from ddpdoctor.lint.rewrites import write_number_of_entry
from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Index, Role, Value


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("bind", "place", "create", "load"):
        if not trace.is_distributed(event):
            continue
        indices = trace.indices(event, event.device)
        if not indices:
            continue
        masked = _mask(trace, event)
        # The other alternative is the program's own list for when the variable is not set.
        roles = {index.role if isinstance(index, Index) else None for index in indices}
        from_variable = Role.PHYSICAL in roles and roles <= {Role.PHYSICAL, Role.LOCAL}
        outside = masked is not None and all(_outside(index, masked) for index in indices)
        if not from_variable and not outside:
            continue
        yield Draft(
            "DDP207",
            event.place,
            "a physical GPU number is used as a device index under CUDA_VISIBLE_DEVICES",
            Severity.ERROR if outside and _is_sure(trace, event) else Severity.WARNING,
            behaviour="CUDA numbers the visible GPUs from 0 again: with CUDA_VISIBLE_DEVICES=4,5 "
            "there is no cuda:4",
            symptom='"CUDA error: invalid device ordinal", or a rank on another rank\'s GPU',
            repair="use the local rank as the index; the mask already chooses the GPU",
            fix=_fix(indices),
        )


def _fix(indices: Iterable[Value]) -> Repair | None:
    entries = [index.origin for index in indices if isinstance(index, Index) and _is_entry(index)]
    picked = entries[0] if entries else None
    return None if picked is None else write_number_of_entry(picked)


def _is_entry(index: Index) -> bool:
    return index.role is Role.PHYSICAL or bool(index.choices)


def _mask(trace: Trace, event: Event) -> int | None:
    """How many GPUs the program itself leaves visible, where that is a constant list."""
    leaves = trace.alternatives(event, event.state.visible)
    mask = by_default(leaves[0]) if len(leaves) == 1 else None
    if isinstance(mask, Const) and isinstance(mask.value, str):
        entries = [entry.strip() for entry in mask.value.split(",")]
        return len(entries) if all(entry.isdigit() for entry in entries) else None
    return None


def _is_sure(trace: Trace, event: Event) -> bool:
    """Whether the mask is written down, not an option's default."""
    return all(isinstance(leaf, Const) for leaf in trace.alternatives(event, event.state.visible))


def _outside(index: Value, visible: int) -> bool:
    if isinstance(index, Index) and index.choices:
        return any(choice >= visible for choice in index.choices)  # one rank has each of them
    return isinstance(index, Const) and isinstance(index.value, int) and index.value >= visible > 1
