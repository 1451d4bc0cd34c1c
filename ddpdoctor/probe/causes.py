"""Findings from what a run showed; those with a source line carry the code of lint's rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from ddpdoctor.findings import Finding, Location, Related, Severity
from ddpdoctor.gpus.misplacement import misplacements, spell
from ddpdoctor.gpus.placement import Placement
from ddpdoctor.probe.explain import Explained, explanation, stands_on
from ddpdoctor.probe.failures import RankEnd
from ddpdoctor.probe.nccl import named_ranks, says_same_gpu
from ddpdoctor.probe.results import Mismatch, Opening

# torch/cuda/__init__.py
_BAD_FORK = "Cannot re-initialize CUDA in forked subprocess"

_T = TypeVar("_T")
_K = TypeVar("_K")


def findings_of(
    placement: Placement,
    openings: Sequence[Opening],
    mismatches: Sequence[Mismatch],
    texts: Sequence[str],
    ends: Sequence[RankEnd],
    explained: Explained,
) -> list[Finding]:
    """texts: what the program's exceptions said. explained: lint's findings in the program."""
    placed = misplacements(placement)
    if any(map(says_same_gpu, texts)):
        placed = _with_nccl(placed, texts)
    wrong = [one for one in openings if one.wrong and one.rank is not None]
    located = {one.rank for one in wrong if one.place}
    found: list[Finding] = []
    for finding in placed:
        if finding.code == "DDP501":
            found.append(replace(finding, related=_related(wrong, finding.ranks)))
        elif finding.code != "DDP502" or not set(finding.ranks) <= located:
            found.append(finding)
    found += _at_openings(wrong, placed, explained)
    found += _at_mismatches(mismatches, explained)
    found += _at_failures(ends, explained)
    return _merged(found)


def _with_nccl(placed: list[Finding], texts: Sequence[str]) -> list[Finding]:
    """NCCL refused ranks on one GPU: say so in DDP501, which names them."""
    said = "NCCL refused them here, in its own words a duplicate GPU (an 'invalid usage' error)."
    if any(finding.code == "DDP501" for finding in placed):
        return [
            replace(one, symptom=f"{said} {one.symptom}") if one.code == "DDP501" else one
            for one in placed
        ]
    ranks = named_ranks(texts)
    who = spell(ranks).capitalize() if ranks else "Several ranks"
    return [
        *placed,
        Finding(
            code="DDP501",
            severity=Severity.ERROR,
            message=f"{who} used the same GPU.",
            symptom=said,
            repair="give each rank its own GPU with torch.cuda.set_device(local_rank) before "
            "anything touches CUDA; a switch that lets ranks share a GPU only hides this",
            ranks=ranks,
        ),
    ]


def _related(wrong: Sequence[Opening], ranks: Sequence[int]) -> tuple[Related, ...]:
    """Where the ranks first opened the GPU that they share."""
    return tuple(
        Related(
            place.filename,
            Location(place.row, 1),
            f"{spell(sorted({one.rank for one in group if one.rank is not None}))} opened it here",
        )
        for place, group in _by([one for one in wrong if one.rank in ranks], lambda one: one.place)
        if place
    )


def _at_openings(
    wrong: Sequence[Opening], placed: Sequence[Finding], explained: Explained
) -> Iterable[Finding]:
    """A finding a line that opened a GPU which is not the rank's own."""
    shared = {rank for finding in placed if finding.code == "DDP501" for rank in finding.ranks}
    for place, group in _by(wrong, lambda one: one.place):
        ranks = tuple(sorted({one.rank for one in group if one.rank is not None}))
        devices = ", ".join(str(device) for device in sorted({one.device for one in group}))
        whose, who = ("its", "it holds") if len(ranks) == 1 else ("their", "each of them holds")
        message = f"{spell(ranks).capitalize()} opened GPU {devices}, which is not {whose} own"
        if place is None:
            yield Finding(
                code="DDP507",
                severity=Severity.WARNING,
                message=f"{message}, from a library and not from a line of the program.",
                behaviour="A library placed work on its default card.",
                symptom=f"more processes than one on GPU {devices} in nvtop.",
                repair="call torch.cuda.set_device(local_rank) before the library starts, and "
                "give it the device where it takes one",
                ranks=ranks,
            )
            continue
        rule = explanation(explained, [place])
        if rule is None and set(ranks) <= shared:
            continue  # DDP501 says it, with this line as the related one
        yield _explained(
            rule,
            Finding(
                code="DDP502",
                severity=Severity.ERROR,
                message=f"{message}, here first.",
                filename=place.filename,
                location=Location(place.row, 1),
                behaviour=f"From this line on {who} a context and memory there.",
                symptom=f"more processes than one on GPU {devices} in nvtop, about 500 MiB each; "
                "memory runs out there first.",
                repair="call torch.cuda.set_device(local_rank) before this line, or give the "
                "device explicitly",
                ranks=ranks,
            ),
        )


def _at_mismatches(mismatches: Sequence[Mismatch], explained: Explained) -> Iterable[Finding]:
    """A finding a failing line: where a tensor was put on the wrong device, if lint knows it."""
    for (place, operation), group in _by(mismatches, lambda one: (one.place, one.operation)):
        first = group[0]
        ranks = tuple(sorted({one.rank for one in group if one.rank is not None}))
        tensors = "; ".join(
            f"{tensor.name or 'a value'} on {tensor.device}" for tensor in first.tensors
        )
        message = (
            f"{first.message[:1].upper()}{first.message[1:]}."
            if first.silent
            else f"{operation} got tensors on different devices: {tensors}."
        )
        made = [tensor.made for tensor in first.tensors]
        finding = Finding(
            code="DDP503",
            severity=Severity.WARNING if first.silent else Severity.ERROR,
            message=message,
            filename=place.filename if place else None,
            location=Location(place.row, 1) if place else None,
            behaviour=f"In module {first.module}." if first.module else "",
            symptom="nothing is raised; time and memory are lost, or results differ."
            if first.silent
            else first.message,
            repair="put every tensor of the operation on the rank's own device: "
            ".to(parameter.device), or torch.cuda.set_device(local_rank) before anything "
            "touches CUDA",
            ranks=ranks,
            related=tuple(
                Related(
                    tensor.made.filename,
                    Location(tensor.made.row, 1),
                    f"{tensor.name} is made here, on {tensor.device}",
                )
                for tensor in first.tensors
                if tensor.made
            ),
        )
        yield _explained(explanation(explained, [place, *made]), finding)


def _at_failures(ends: Sequence[RankEnd], explained: Explained) -> Iterable[Finding]:
    """Lint's finding for a line that raised, where it has one: the exception speaks for itself."""
    # Of what mp.spawn's parent raises for its children, the children tell.
    told = [end for end in ends if end.rank is not None or not end.consequence]
    for place, group in _by(told, lambda end: end.place):
        said = group[0].said
        # PyTorch refuses a forked child where it first uses CUDA; the cause is the parent's line.
        forked = _BAD_FORK in said
        rule = _of_code("DDP210", explained) if forked else explanation(explained, [place])
        if rule:
            ranks = tuple(end.rank for end in group if end.rank is not None)
            who = spell(ranks) if ranks else _spell_pids([end.pid for end in group])
            at = f"at {place}" if forked and place else "here"
            behaviour = f"{who.capitalize()} failed {at}: {said.rstrip('.')}."
            yield replace(rule, ranks=ranks, behaviour=behaviour)


def _spell_pids(pids: Sequence[int]) -> str:
    return f"{'process' if len(pids) == 1 else 'processes'} {', '.join(map(str, pids))}"


def _of_code(code: str, explained: Explained) -> Finding | None:
    return next((finding for finding in explained() if finding.code == code), None)


def _explained(rule: Finding | None, seen: Finding) -> Finding:
    """Lint's finding, with what this run showed of it; the seen one where lint has none."""
    if rule is None:
        return seen
    here: tuple[Related, ...] = ()
    if seen.filename and seen.location and not stands_on(rule, seen.filename, seen.location.row):
        here = (Related(seen.filename, seen.location, seen.message),)
    return replace(rule, ranks=seen.ranks, behaviour=seen.message, related=(*rule.related, *here))


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One cause, one finding: the same rule at the same line is said once, for all its ranks."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.filename, finding.location)
        if finding.filename is None or key not in merged:
            merged[(*key, len(merged)) if finding.filename is None else key] = finding
            continue
        known = merged[key]
        merged[key] = replace(
            known,
            ranks=tuple(sorted({*known.ranks, *finding.ranks})),
            behaviour=f"{known.behaviour} {finding.behaviour}".strip(),
            related=tuple(dict.fromkeys((*known.related, *finding.related))),
        )
    return list(merged.values())


def _by(items: Iterable[_T], key: Callable[[_T], _K]) -> list[tuple[_K, list[_T]]]:
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.items())
