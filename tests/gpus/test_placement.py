"""Samples over time joined with the ranks of a job, and what is wrong with the result."""

from __future__ import annotations

import json

import pytest

from ddpdoctor.findings import Severity
from ddpdoctor.gpus import Gpu, GpuProcess, Snapshot
from ddpdoctor.gpus.misplacement import misplacements
from ddpdoctor.gpus.placement import RankProcess, place

MIB = 2**20


def uuid(index):
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def sample(time, *gpus, problem=None):
    """gpus: for each GPU {pid: MiB or None}."""
    return Snapshot(
        time,
        tuple(
            Gpu(
                i,
                uuid(i),
                "NVIDIA H100",
                81559 * MIB,
                None,
                tuple(
                    GpuProcess(pid, None if size is None else size * MIB)
                    for pid, size in held.items()
                ),
                problem,
            )
            for i, held in enumerate(gpus)
        ),
    )


def ranks(count, visible=None):
    """Rank i has pid 100 + i and sees as many GPUs as there are ranks, if not said otherwise."""
    every = tuple(uuid(i) for i in range(count if visible is None else visible))
    return [RankProcess(i, i, 100 + i, (100 + i,), every) for i in range(count)]


def codes(placement):
    return [(finding.code, finding.ranks) for finding in misplacements(placement)]


def test_one_rank_a_gpu_is_clean():
    placement = place([sample(1.0, {100: 500}, {101: 600})], ranks(2))
    assert [gpu.ranks for gpu in placement.gpus] == [(0,), (1,)]
    assert [row.devices for row in placement.ranks] == [(0,), (1,)]
    assert placement.gpus[1].processes[0].peak_bytes == 600 * MIB
    assert codes(placement) == []
    assert placement.problems == ()


def test_eight_ranks_on_gpu_0():
    on_0 = {100 + i: 500 for i in range(8)}
    placement = place([sample(1.0, on_0, *({} for _ in range(7)))], ranks(8))
    [finding] = misplacements(placement)
    assert (finding.code, finding.ranks) == ("DDP501", tuple(range(8)))
    assert finding.message == "8 ranks are on GPU 0 (NVIDIA H100): ranks 0-7."
    assert finding.behaviour == "Ranks 1-7 belong on GPUs 1-7."
    assert "set_device" in finding.repair


def test_a_second_context_on_gpu_0_is_one_finding_for_all_guests():
    placement = place(
        [sample(1.0, {100: 900, 101: 500, 102: 400}, {101: 900}, {102: 900})], ranks(3)
    )
    [finding] = misplacements(placement)
    assert (finding.code, finding.ranks) == ("DDP502", (1, 2))
    assert finding.severity is Severity.ERROR
    assert finding.behaviour == "Ranks 1, 2 belong on GPUs 1, 2."
    assert finding.message == (
        "Ranks 1, 2 hold up to 500 MiB on GPU 0 (NVIDIA H100), which is not their own."
    )


def test_a_rank_alone_on_a_wrong_gpu():
    placement = place([sample(1.0, {100: 900}, {}, {101: 900})], ranks(2, visible=3))
    [finding] = misplacements(placement)
    assert (finding.code, finding.ranks, finding.severity) == ("DDP502", (1,), Severity.WARNING)
    assert finding.message == "Rank 1 holds 900 MiB on GPU 2 (NVIDIA H100), which is not its own."


def test_more_ranks_than_gpus_is_the_one_cause():
    placement = place([sample(1.0, {100: 9, 102: 9}, {101: 9, 103: 9})], ranks(4, visible=2))
    [finding] = misplacements(placement)
    assert finding.code == "DDP505"
    assert finding.message == "4 ranks run on this machine, but they see only 2 GPUs."
    assert finding.behaviour == "Ranks 0, 2 share GPU 0; ranks 1, 3 share GPU 1."


def test_more_ranks_than_gpus_and_all_of_them_on_gpu_0_are_two_causes():
    placement = place([sample(1.0, {100 + i: 9 for i in range(4)}, {})], ranks(4, visible=2))
    assert codes(placement) == [("DDP505", (0, 1, 2, 3)), ("DDP501", (0, 1, 2, 3))]


def test_ranks_without_any_gpu():
    placement = place([sample(1.0, {})], ranks(2, visible=0))
    [finding] = misplacements(placement)
    assert finding.message == "2 ranks run on this machine, but they see no GPU."


def test_more_gpus_than_ranks_is_clean():
    placement = place([sample(1.0, {100: 9}, {101: 9}, {}, {})], ranks(2, visible=4))
    assert codes(placement) == []


def test_under_virtual_local_rank_every_rank_has_its_one_device():
    job = [RankProcess(i, 0, 100 + i, (), (uuid(i),)) for i in range(2)]
    placement = place([sample(1.0, {100: 9}, {101: 9})], job)
    assert [row.own for row in placement.ranks] == [0, 1]
    assert codes(placement) == []


def test_the_same_mask_for_every_rank_is_too_few_gpus():
    job = [RankProcess(i, i, 100 + i, (), (uuid(0),)) for i in range(2)]
    placement = place([sample(1.0, {100: 9, 101: 9}, {})], job)
    assert codes(placement) == [("DDP505", (0, 1))]


def test_a_mask_in_another_order_is_followed():
    mask = (uuid(2), uuid(0))
    job = [RankProcess(i, i, 100 + i, (), mask) for i in range(2)]
    placement = place([sample(1.0, {101: 9}, {}, {100: 9})], job)
    assert [row.own for row in placement.ranks] == [2, 0]
    assert codes(placement) == []


def test_ranks_whose_own_gpus_are_not_in_rank_order():
    mask = (uuid(2), uuid(1), uuid(0))
    job = [RankProcess(i, i, 100 + i, (), mask) for i in range(3)]
    [finding] = misplacements(place([sample(1.0, {}, {}, {100: 9, 101: 9, 102: 9})], job))
    assert finding.code == "DDP501"
    assert finding.behaviour == "Ranks 1, 2 belong on GPUs 1, 0, in this order."


def test_uuids_as_torch_prints_them_are_joined():
    job = [RankProcess(0, 0, 100, (), (uuid(1).removeprefix("GPU-"),))]
    assert place([sample(1.0, {}, {100: 9})], job).ranks[0].own == 1


def test_ranks_whose_visible_devices_are_unknown_are_still_seen_together():
    job = [RankProcess(i, i, 100 + i) for i in range(2)]
    placement = place([sample(1.0, {100: 9, 101: 9}, {})], job)
    assert codes(placement) == [("DDP501", (0, 1))]


def test_processes_at_0_bytes_are_not_there_and_unknown_ones_are():
    placement = place([sample(1.0, {100: 9, 101: 0}, {100: 0, 101: None})], ranks(2))
    assert [gpu.ranks for gpu in placement.gpus] == [(0,), (1,)]
    assert placement.gpus[1].processes[0].peak_bytes is None
    assert codes(placement) == []


def test_the_peak_and_the_changes_over_time_are_kept():
    samples = [
        sample(1.0, {}),
        sample(2.0, {100: 5}),
        sample(3.0, {100: 5}),
        sample(4.0, {100: 9}),
        sample(5.0, {}, problem="NVML says 'GPU is lost'"),
        sample(6.0, {}),
    ]
    placement = place(samples, ranks(1))
    [process] = placement.gpus[0].processes
    assert process.peak_bytes == 9 * MIB
    assert process.curve == ((2.0, 5 * MIB), (4.0, 9 * MIB), (6.0, 0))
    assert placement.gpus[0].problem == "NVML says 'GPU is lost'"
    assert placement.problems == ("GPU 0: NVML says 'GPU is lost'",)


def test_a_misplacement_that_is_over_is_still_found():
    samples = [sample(1.0, {100: 9, 101: 9}, {}), sample(2.0, {100: 9}, {101: 9})]
    assert codes(place(samples, ranks(2))) == [("DDP502", (1,))]


def test_the_peak_that_a_source_remembers_counts():
    seen = Gpu(0, uuid(0), "Virtual GPU", 1, 0, (GpuProcess(100, 0, 7 * MIB),))
    placement = place([Snapshot(1.0, (seen,))], ranks(1))
    assert placement.gpus[0].processes[0].peak_bytes == 7 * MIB
    assert placement.ranks[0].devices == (0,)


def test_no_pid_of_ours_on_the_gpus_is_a_mismatch_and_not_an_empty_table():
    placement = place([sample(1.0, {700001: 500, 700002: 500}, {})], ranks(2))
    assert placement.pid_mismatch
    assert placement.problems[0].startswith("pid namespace mismatch")
    assert "700001, 700002" in placement.problems[0]
    assert len(placement.gpus[0].processes) == 2


@pytest.mark.parametrize("held", [{700001: 500, 100: 500}, {800001: 500}, {700001: 0}, {}])
def test_a_rank_or_a_neighbour_or_nobody_on_the_gpus_is_no_mismatch(held):
    placement = place([sample(1.0, held)], ranks(1), {800001: "python of user ada"})
    assert not placement.pid_mismatch
    assert placement.problems == ()


def test_a_neighbour_has_no_rank_but_a_note():
    placement = place([sample(1.0, {100: 1, 800001: 2})], ranks(1), {800001: "python of user ada"})
    mine, theirs = placement.gpus[0].processes
    assert (mine.rank, mine.note) == (0, "")
    assert (theirs.rank, theirs.note) == (None, "python of user ada")


def test_a_host_pid_is_reported_as_the_ranks_own():
    job = [RankProcess(0, 0, 7, (700001, 7), (uuid(0),))]
    placement = place([sample(1.0, {700001: 1})], job)
    assert placement.gpus[0].processes[0].pid == 7
    assert placement.ranks[0].devices == (0,)


def test_a_ranks_worker_counts_as_the_rank():
    job = [*ranks(2), RankProcess(1, 1, 900, (900,), (uuid(0), uuid(1)))]
    placement = place([sample(1.0, {100: 9, 900: 9}, {101: 9})], job)
    assert placement.ranks[1].pid == 101
    assert codes(placement) == [("DDP502", (1,))]


def test_the_json_form_has_the_documented_names():
    placement = place([sample(1.0, {100: 5})], ranks(1))
    form = json.loads(json.dumps(placement.to_dict()))
    assert form["ranks"] == [{"rank": 0, "local_rank": 0, "pid": 100, "own": 0, "devices": [0]}]
    assert form["gpus"][0]["processes"] == [{"pid": 100, "rank": 0, "bytes": 5 * MIB, "note": ""}]
    assert (form["gpus"][0]["index"], form["gpus"][0]["uuid"]) == (0, uuid(0))
