"""A run that got nowhere: which ranks stood where, and which one is the odd one (DDP504)."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.findings import Finding, Location, Related, Severity
from ddpdoctor.gpus.misplacement import spell
from ddpdoctor.probe.explain import Explained, explanation
from ddpdoctor.probe.failures import RankEnd
from ddpdoctor.probe.progress import Progress
from ddpdoctor.probe.ranks import Rank
from ddpdoctor.probe.results import Place, StackGroup, Waiting
from ddpdoctor.probe.stacks import Frame
from ddpdoctor.probe.watch import Evidence
from ddpdoctor.virtual.user_files import is_own_file, is_user_file


def stack_groups(
    evidence: Evidence, ranks: Mapping[int, Rank], expected: Sequence[int]
) -> tuple[StackGroup, ...]:
    """Where this node's ranks stood; equals together."""
    return gathered(_stood(number, evidence, ranks) for number in expected)


def gathered(stood: Iterable[StackGroup]) -> tuple[StackGroup, ...]:
    """The ranks that stood in the same place together; the odd one, if any, is marked and first."""
    together: dict[object, list[StackGroup]] = {}
    for one in stood:
        # Not by all frames: inside of PyTorch ranks of one collective may be a line apart.
        together.setdefault((one.waiting, one.place or one.frames, one.problem), []).append(one)
    groups = [
        replace(group[0], ranks=tuple(rank for one in group for rank in one.ranks), odd=False)
        for group in together.values()
    ]
    if len(set(map(_ordinariness, groups))) < 2:
        return tuple(groups)
    odd, *others = sorted(groups, key=_ordinariness)
    return (replace(odd, odd=True), *others)


def last_collectives(progress: Mapping[int, Progress], ranks: Mapping[int, Rank]) -> str:
    """In words: the one that each rank entered last, whether or not it came out of it."""
    last: dict[str, list[int]] = {}
    for number, rank in ranks.items():
        if (one := progress.get(rank.pid)) and one.operation:
            what = f"{one.operation} number {one.sequence} of {one.group}"
            last.setdefault(what, []).append(number)
    if not last:
        return "No rank had entered a collective."
    told = "; ".join(f"{spell(members)} {what}" for what, members in last.items())
    return f"The last collective entered: {told}."


def hang_finding(
    groups: Sequence[StackGroup], seconds: float, last: str, explained: Explained
) -> Finding:
    """DDP504, at the line where the odd rank stood; lint's rule for a line that a rank stood on is
    named, and related. last: the last collectives, in words.
    """
    place = next((group.place for group in groups if group.place), None)
    where = "; ".join(f"{spell(group.ranks)} {_in_words(group)}" for group in groups)
    rule = explanation(explained, [group.place for group in groups])
    why = f"; {rule.code} explains it: {rule.message}" if rule else ""
    return Finding(
        code="DDP504",
        severity=Severity.ERROR,
        message=f"No rank got any further for {seconds:.0f} s: {where}.",
        filename=place.filename if place else None,
        location=Location(place.row, 1) if place else None,
        behaviour=last,
        symptom="the job stands still, GPUs at 100 % or idle, until the process group's timeout "
        "(10 minutes with NCCL, 30 with gloo) ends it.",
        repair=_advice(groups) + why,
        ranks=groups[0].ranks if groups and groups[0].odd else (),
        related=(Related(rule.filename, rule.location, f"{rule.code}: {rule.message}"),)
        if rule and rule.filename and rule.location
        else (),
    )


def left_alone(
    evidence: Evidence, ranks: Mapping[int, Rank], ends: Mapping[int, RankEnd]
) -> Finding | None:
    """DDP504 where ranks failed in a collective because others had ended before it, and well.

    gloo notices the closed connection and raises; NCCL waits for its timeout.
    """
    gone = [number for number in ranks if number not in ends]
    alone = {n: end for n, end in ends.items() if end.exception and end.consequence}
    if not gone or len(alone) < len(ends) or not alone:
        return None
    first = next(iter(alone.values()))
    last = evidence.progress.get(first.pid)
    what = f"{last.operation} (number {last.sequence} of {last.group})" if last else "a collective"
    place = first.place
    who, had = spell(list(alone)), "had" if len(gone) > 1 else "has"
    return Finding(
        code="DDP504",
        severity=Severity.ERROR,
        message=f"{who.capitalize()} waited in {what} for {spell(gone)}, which {had} already "
        "ended.",
        filename=place.filename if place else None,
        location=Location(place.row, 1) if place else None,
        behaviour=f"{spell(gone).capitalize()} entered fewer collectives than the others.",
        symptom="with NCCL the job stands still until the process group's timeout (10 minutes); "
        "with gloo the others raise 'connection closed by peer'.",
        repair="make every rank enter the same collectives the same number of times: equal "
        "numbers of batches (DistributedSampler, drop_last), or DDP's join()",
        ranks=tuple(gone),
    )


def _stood(number: int, evidence: Evidence, ranks: Mapping[int, Rank]) -> StackGroup:
    """Where one rank stood: a group of its own."""
    rank = ranks.get(number)
    if rank is None:
        return _without_stack(number, "it never imported torch, or never started")
    if rank.pid not in evidence.alive:
        death = evidence.deaths.get(rank.pid)
        status = death.status if death else None
        return _without_stack(
            number, "it had ended already" if status is None else f"it had ended already ({status})"
        )
    frames = evidence.stacks.get(rank.pid, ())
    one = evidence.progress.get(rank.pid)
    waiting = None
    if one and one.inside:
        waiting = Waiting(one.operation, one.sequence, one.group, _members(evidence, one.group))
    problem = "" if frames else "it did not answer"
    spelled = tuple(
        f"{file}:{row} in {function}" for file, row, function in frames if not is_own_file(file)
    )
    return StackGroup((number,), waiting, spelled, _user_place(frames), False, problem)


def _members(evidence: Evidence, group: str) -> tuple[int, ...]:
    """The ranks of a group of the program's own; () for the default one, which is all."""
    for record in evidence.records:
        if record.kind == "subgroup" and record.facts["name"] == group:
            return tuple(record.facts["ranks"])
    return ()


def _without_stack(number: int, problem: str) -> StackGroup:
    return StackGroup((number,), None, (), None, False, problem)


def _user_place(frames: Sequence[Frame]) -> Place | None:
    for file, row, _ in frames:
        if is_user_file(file):
            return Place(file, row, linecache.getline(file, row).strip())
    return None


def _ordinariness(group: StackGroup) -> tuple[bool, int, int]:
    """Least first: a rank that waits for nobody, then the smallest group, then the one behind."""
    waits = group.waiting is not None
    return waits, len(group.ranks), group.waiting.sequence if group.waiting else 0


def _in_words(group: StackGroup) -> str:
    verb = "waits" if len(group.ranks) == 1 else "wait"
    at = f" at {group.place}" if group.place else ""
    if group.waiting:
        what = group.waiting
        return f"{verb} in {what.operation} (number {what.sequence} of {what.group}){at}"
    if group.problem:
        return f"has no stack, {group.problem}" if len(group.ranks) == 1 else group.problem
    stands = "is" if len(group.ranks) == 1 else "are"
    return f"{stands} in no collective{at}"


def _advice(groups: Sequence[StackGroup]) -> str:
    waits = {
        (group.waiting.operation, group.waiting.sequence, group.waiting.group)
        for group in groups
        if group.waiting
    }
    if len(groups) > 1 and any(group.waiting is None for group in groups):
        odd = spell(groups[0].ranks)
        return (
            f"look at {odd}: every rank of a group must enter each collective, so no rank may "
            "skip, leave or end before one that the others enter"
        )
    if len(waits) > 1:
        return (
            "the ranks are in different collectives: make every rank call the same ones in the "
            "same order, outside of branches on the rank"
        )
    if not waits:
        return (
            "no rank is in a collective: look at what the line waits for (a lock, a file, a "
            "worker, another node); where it is only slow, raise --timeout"
        )
    return (
        "all ranks wait in the same collective: look at the devices they use and at the network "
        "between them; where the job is only slow, raise --timeout"
    )
