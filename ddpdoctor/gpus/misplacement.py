"""What is wrong with a placement: DDP501, DDP502 and DDP505."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.findings import Finding, Severity
from ddpdoctor.gpus.placement import GpuRow, Placement, RankRow

_BIND = (
    'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything touches CUDA, '
    "in every rank"
)


def misplacements(placement: Placement) -> list[Finding]:
    """One finding a cause: too few GPUs, ranks that live together, memory left on a strange GPU.

    A rank that lives on a shared GPU (DDP501) gets no DDP502 for it as well, and ranks that share
    because there are too few GPUs (DDP505) no DDP501.
    """
    too_few = _too_few_gpus(placement.ranks)
    findings = [too_few] if too_few else []
    shared: set[tuple[int, int]] = set()
    for gpu in placement.gpus:
        at_home = [rank for rank in placement.ranks if rank.home == gpu.index]
        if len(at_home) < 2 or (too_few and all(rank.own == gpu.index for rank in at_home)):
            continue
        shared.update((gpu.index, rank.rank) for rank in at_home)
        findings.append(_several_ranks(gpu, at_home))
    owners = {rank.own for rank in placement.ranks}
    findings.extend(
        _not_its_own(gpu, guests, gpu.index in owners) for gpu, guests in _guests(placement, shared)
    )
    return findings


def _guests(
    placement: Placement, shared: set[tuple[int, int]]
) -> Iterator[tuple[GpuRow, list[RankRow]]]:
    for gpu in placement.gpus:
        guests = [
            rank
            for rank in placement.ranks
            if gpu.index in rank.devices
            and rank.own not in (None, gpu.index)
            and (gpu.index, rank.rank) not in shared
        ]
        if guests:
            yield gpu, guests


def _several_ranks(gpu: GpuRow, ranks: Sequence[RankRow]) -> Finding:
    numbers = tuple(rank.rank for rank in ranks)
    strays = [rank for rank in ranks if rank.own not in (None, gpu.index)]
    return Finding(
        code="DDP501",
        severity=Severity.ERROR,
        message=f"{len(ranks)} ranks are on GPU {gpu.index} ({gpu.name}): {spell(numbers)}.",
        behaviour=_belong(strays)
        if strays
        else f"{_sentence(spell(numbers))} were given the same visible device.",
        symptom=f"{len(ranks)} processes on GPU {gpu.index} in nvtop and the other GPUs idle; "
        "NCCL stops with an invalid usage error or hangs, or GPU memory runs out.",
        repair=_BIND if strays else "give each rank its own device in CUDA_VISIBLE_DEVICES",
        ranks=numbers,
    )


def _not_its_own(gpu: GpuRow, guests: Sequence[RankRow], owned: bool) -> Finding:
    numbers = tuple(rank.rank for rank in guests)
    verb = "holds" if len(guests) == 1 else "hold"
    held = [p.peak_bytes for p in gpu.processes if p.rank in numbers and p.peak_bytes is not None]
    up_to = "up to " if len(held) > 1 else ""
    amount = f"{up_to}{mebibytes(max(held))}" if held else "memory"
    return Finding(
        code="DDP502",
        # Nobody's GPU may be a model split over several devices by intention.
        severity=Severity.ERROR if owned else Severity.WARNING,
        message=f"{_sentence(spell(numbers))} {verb} {amount} on GPU {gpu.index} "
        f"({gpu.name}), which is not {'its' if len(guests) == 1 else 'their'} own.",
        behaviour=_belong(guests),
        symptom=f"more than one process on GPU {gpu.index} in nvtop, about 500 MiB or more each; "
        "GPU memory runs out there first."
        if owned
        else f"rank {numbers[0]} in nvtop on a GPU that its local rank does not name.",
        repair=_BIND,
        ranks=numbers,
    )


def _too_few_gpus(ranks: Sequence[RankRow]) -> Finding | None:
    if not ranks or any(rank.visible is None for rank in ranks):
        return None
    visible = {uuid for rank in ranks for uuid in rank.visible or ()}
    if len(ranks) <= len(visible):
        return None
    owned = sorted({rank.own for rank in ranks if rank.own is not None})
    together = {i: tuple(rank.rank for rank in ranks if rank.own == i) for i in owned}
    sharing = [f"{spell(on)} share GPU {i}" for i, on in together.items() if len(on) > 1]
    seen = "no GPU" if not visible else f"only {len(visible)} GPU{'s' * (len(visible) > 1)}"
    return Finding(
        code="DDP505",
        severity=Severity.ERROR,
        message=f"{len(ranks)} ranks run on this machine, but they see {seen}.",
        behaviour=f"{_sentence('; '.join(sharing))}." if sharing else "No rank has a GPU.",
        symptom="NCCL refuses two ranks on one GPU (invalid usage, duplicate GPU); a device index "
        "taken from the local rank raises 'invalid device ordinal'.",
        repair=f"start one rank a GPU: --nproc-per-node={len(visible)}"
        if visible
        else "start the job where its ranks see GPUs, or use the gloo backend on CPU",
        ranks=tuple(rank.rank for rank in ranks),
    )


def _belong(ranks: Sequence[RankRow]) -> str:
    """ "Ranks 1-7 belong on GPUs 1-7." """
    verb = "belongs" if len(ranks) == 1 else "belong"
    owns = [rank.own for rank in ranks if rank.own is not None]
    order = "" if owns == sorted(owns) else ", in this order"
    gpus = spell(owns, "GPU")
    return f"{_sentence(spell([rank.rank for rank in ranks]))} {verb} on {gpus}{order}."


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def spell(numbers: Sequence[int], noun: str = "rank") -> str:
    """In words, in the order given: "rank 3", "ranks 0-7", "ranks 0, 2"."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{noun}s {numbers[0]}-{numbers[-1]}"
    return f"{noun}s {', '.join(map(str, numbers))}"


def mebibytes(count: int) -> str:
    """Device memory as nvidia-smi writes it."""
    return f"{count / 2**20:.0f} MiB"
