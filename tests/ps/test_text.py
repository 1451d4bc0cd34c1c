"""What `ddpdoctor ps` prints for people, where a running machine cannot be made to order."""

from __future__ import annotations

from ddpdoctor.gpus import Gpu, GpuProcess, Snapshot
from ddpdoctor.gpus.placement import RankProcess, place
from ddpdoctor.probe.results import Place, StackGroup
from ddpdoctor.ps.jobs import Job
from ddpdoctor.ps.overview import JobView, Overview
from ddpdoctor.ps.processes import Process
from ddpdoctor.ps.text import overview_text
from ddpdoctor.report.terminal import Screen

MIB = 2**20


def snapshot(*processes):
    gpu = Gpu(0, "GPU-0", "NVIDIA H100", 80 * 2**30, None, processes)
    return Snapshot(1.0, (gpu,))


def test_a_machine_without_a_job_shows_who_is_on_its_gpus():
    rest = place([snapshot(GpuProcess(7, 3 * MIB))], (), {7: "python3 of user ada: no rank"})
    text = overview_text(Overview("nvml", (), rest, ("GPU 1: lost",)), Screen())
    assert text == (
        "GPU 0: 1 process, 3.00 MiB: pid 7 (python3 of user ada: no rank)\n"
        "\n"
        "No rank of a distributed job was found among the processes of this machine.\n"
        "note: GPU 1: lost\n"
    )


def test_a_job_with_stacks():
    ranks = tuple(RankProcess(rank, rank, 10 + rank, (), ("GPU-0",)) for rank in range(3))
    launcher = Process(9, 1, "torchrun of user ada", ("python", "/bin/torchrun"), (9,), {})
    job = Job(launcher, ("python", "train.py", "--name", "a b\x1b[31m"), 4, ranks, ())
    place_of_2 = Place("train.py", 9, "evaluate(model)")
    deep = [f"train.py:{row} in evaluate" for row in range(9, 20)]
    groups = (
        StackGroup((0, 1), None, ("torch.py:8 in step",), None, False),
        StackGroup((2,), None, ("<frozen importlib>:1 in load", *deep), place_of_2, True),
        StackGroup((3,), None, (), None, True, "py-spy, pid 13: it failed"),
    )
    placement = place([snapshot(GpuProcess(10, MIB))], ranks)
    job_view = JobView(job, placement, (), groups)
    rest = place([snapshot()], ())
    text = overview_text(Overview("nvml", (job_view,), rest, ()), Screen())
    lines = text.splitlines()
    assert lines[:2] == [
        "Job 0: 3 ranks of 4, started by torchrun 9",
        "  python train.py --name 'a b\\x1b[31m'",
    ]
    at = lines.index("Rank 2 stands, apart from the others, at train.py:9")
    assert lines[at + 1 : at + 3] == ["    evaluate(model)", "  train.py:9 in evaluate"]
    assert lines[at + 9 : at + 11] == ["  train.py:16 in evaluate", "  and 3 frames further out"]
    assert "Rank 3: py-spy, pid 13: it failed" in lines
    assert lines.index("Ranks 0-1 stand in no line of the program") > at


def test_a_long_command_is_cut_to_the_screen():
    ranks = (RankProcess(0, 0, 10, (), ("GPU-0",)),)
    job = Job(None, ("python", "x" * 300), 1, ranks, ())
    placement = place([snapshot(GpuProcess(10, MIB))], ranks)
    rest = place([snapshot()], ())
    overview = Overview("nvml", (JobView(job, placement, (), ()),), rest, ())
    command = overview_text(overview, Screen(columns=60)).splitlines()[1]
    assert len(command) <= 60
    assert command.endswith("~")
