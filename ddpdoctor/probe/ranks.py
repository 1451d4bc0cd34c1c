"""Which process is which rank, from what the processes recorded of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.gpus.placement import RankProcess
from ddpdoctor.gpus.snapshot import Gpu
from ddpdoctor.gpus.visible import visible_devices
from ddpdoctor.probe.records import Record


@dataclass(frozen=True)
class Rank:
    """A rank's main process. opened_group: it got through init_process_group."""

    rank: int
    local_rank: int
    pid: int
    opened_group: bool
    environment: Mapping[str, str]


def main_processes(records: Sequence[Record], alone: bool) -> dict[int, Rank]:
    """By rank, its main process: the one that opened the process group, else the first started.

    Other processes with the same RANK are the rank's own helpers (data loading workers). alone:
    the program was started without a launcher; where none of its processes is a rank, its first
    one counts as rank 0, unless another one raised: then it may have been about to be a rank.
    """
    found: dict[int, Rank] = {}
    for record in records:
        if record.kind not in ("process", "group"):
            continue
        environment = record.facts["environment"]
        if record.kind == "group":
            number = record.facts["rank"]
        elif environment.get("RANK", "").isdigit():
            number = int(environment["RANK"])
        else:
            continue
        known = found.get(number)
        if known is None or (record.kind == "group" and not known.opened_group):
            local = environment.get("LOCAL_RANK", "")
            found[number] = Rank(
                number,
                int(local) if local.isdigit() else number,
                record.pid,
                record.kind == "group",
                environment,
            )
    if not found and alone:
        first = next((record for record in records if record.kind == "process"), None)
        raised = {record.pid for record in records if record.kind == "exception"}
        if first and raised <= {first.pid}:
            return {0: Rank(0, 0, first.pid, False, first.facts["environment"])}
    return dict(sorted(found.items()))


def rank_processes(
    records: Sequence[Record], ranks: Mapping[int, Rank], gpus: Sequence[Gpu]
) -> list[RankProcess]:
    """Every process of every rank, the main one first, as the placement wants them."""
    started = {record.pid: record for record in records if record.kind == "process"}
    seen = {record.pid: record.facts["visible"] for record in records if record.kind == "cuda"}
    owners = {rank.pid: rank for rank in ranks.values()}
    for pid, record in started.items():
        if pid in owners:
            continue
        # A child of a rank is that rank's helper, whether or not it inherited RANK.
        parent = record.facts["parent"]
        while parent in started and parent not in owners:
            parent = started[parent].facts["parent"]
        if parent in owners:
            owners[pid] = owners[parent]
    processes = [
        RankProcess(
            rank=rank.rank,
            local_rank=rank.local_rank,
            pid=pid,
            nspids=tuple(started[pid].facts["nspids"]) if pid in started else (),
            visible=tuple(seen[pid])
            if pid in seen
            else visible_devices(rank.environment, gpus).uuids,
        )
        for pid, rank in owners.items()
    ]
    return sorted(processes, key=lambda one: (one.rank, one.pid != ranks[one.rank].pid, one.pid))
