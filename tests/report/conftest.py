"""The program in program/, findings about it, and snapshots of what the reporters print."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.findings import (
    Applicability,
    Edit,
    Finding,
    Fix,
    Location,
    Related,
    Severity,
)
from ddpdoctor.gpus.placement import Placement, RankProcess, place
from ddpdoctor.gpus.snapshot import Gpu, GpuProcess, Snapshot
from ddpdoctor.probe.results import (
    Failure,
    Mismatch,
    Opening,
    Place,
    ProbeReport,
    ProbeRun,
    RankProgress,
    StackGroup,
    TensorSeen,
    Waiting,
)

HERE = Path(__file__).parent


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the small program, which is the working folder during the test."""
    monkeypatch.chdir(HERE / "program")
    return HERE / "program"


@pytest.fixture
def snapshot() -> Callable[[str, str], None]:
    """Compares with snapshots/NAME; UPDATE_SNAPSHOTS=1 writes it: then read what changed."""

    def compare(name: str, text: str) -> None:
        path = HERE / "snapshots" / name
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.write_bytes(text.encode())
        assert text.splitlines() == path.read_bytes().decode().splitlines()

    return compare


BIND = Fix(
    Applicability.SAFE,
    "Bind each process to its GPU before the process group",
    (
        Edit(
            "main.py", Location(11, 1), Location(11, 1), "    torch.cuda.set_device(LOCAL_RANK)\n"
        ),
        Edit("main.py", Location(5, 56), Location(5, 56), ""),
    ),
)

BARE = Finding(
    code="DDP101",
    message="`.cuda()` without an index, in a process that is bound to no GPU.",
    severity=Severity.ERROR,
    filename="main.py",
    location=Location(13, 13),
    end_location=Location(13, 33),
    behaviour="Every rank puts its model on cuda:0; only rank 0 is where it should be.",
    symptom="N processes on GPU 0 in nvtop, GPU 0 at 100 %, the other GPUs idle; NCCL hangs or "
    "reports a duplicate GPU.",
    repair="Call torch.cuda.set_device(LOCAL_RANK) before anything touches CUDA.",
    fix=BIND,
)

WRAP = Finding(
    code="DDP303",
    message="The module is on cuda:0, but device_ids names the rank's own GPU.",
    severity=Severity.ERROR,
    filename="main.py",
    location=Location(14, 13),
    end_location=Location(18, 6),
    behaviour="Ranks above 0 stop here.",
    symptom="ValueError: DistributedDataParallel's input module must be on the same device.",
    repair="Move the module to LOCAL_RANK before it is wrapped.",
    related=(Related("main.py", Location(13, 13), "the module was placed here"),),
)

CONSTANT = Finding(
    code="DDP103",
    message='The default device "cuda:0" is the same GPU on every rank.',
    severity=Severity.WARNING,
    filename="net.py",
    location=Location(6, 38),
    end_location=Location(6, 46),
    behaviour="Every rank makes this layer on cuda:0.",
    symptom="A process of every rank on GPU 0.",
    repair="Pass the rank's device from the caller.",
    related=(Related("net.py", Location(8, 20), "takes effect here"),),
    fix=Fix(
        Applicability.UNSAFE,
        "Use the current device",
        (Edit("net.py", Location(6, 38), Location(6, 46), '"cuda"'),),
    ),
)

NOWHERE = Finding(
    code="DDP505",
    message="4 ranks run on this machine, but they see only 2 GPUs.",
    severity=Severity.INFO,
    ranks=(0, 1, 2, 3, 7),
)

FINDINGS = [BARE, WRAP, CONSTANT, NOWHERE]


@pytest.fixture
def findings() -> list[Finding]:
    return FINDINGS


MIB = 2**20
START = 1_700_000_000.0
UUIDS = [f"GPU-virtual-0000-0000-0000-{index:012d}" for index in range(4)]


def samples(held: Callable[[int, int], list[tuple[int, int | None]]]) -> Placement:
    """The placement of four ranks on four GPUs, sampled every half second for 20 seconds.

    held(gpu, moment): the (pid, bytes) on a GPU at a moment, 0 to 40.
    """
    snapshots = [
        Snapshot(
            START + moment / 2,
            tuple(
                Gpu(
                    index,
                    uuid,
                    "Virtual GPU",
                    80 * 2**30,
                    None,
                    tuple(GpuProcess(*process) for process in held(index, moment)),
                )
                for index, uuid in enumerate(UUIDS)
            ),
        )
        for moment in range(41)
    ]
    processes = [RankProcess(rank, rank, 100 + rank, visible=tuple(UUIDS)) for rank in range(4)]
    return place(snapshots, processes, {900: "python of alice"})


def run_of(placement: Placement, **changes: Any) -> ProbeRun:
    """A run that completed, with nothing to say, but for the changes."""
    whole = ProbeRun(
        command=("torchrun", "--nproc-per-node", "4", "main.py", "--data", "my data"),
        source="virtual",
        started=START,
        outcome="completed",
        exit_code=0,
        seconds=20.0,
        world_size=4,
        run_folder="/tmp/ddpdoctor-run",
        output=("epoch 1 loss 0.231",),
        placement=placement,
        progress=tuple(RankProgress(n, 60, 64, 11.8, 0.231, "completed") for n in range(4)),
        openings=(),
        mismatches=(),
        stacks=(),
        failure=None,
        findings=(),
        notes=("No GPU was seen here: the ranks ran on virtual GPUs.",),
    )
    return replace(whole, **changes)


@pytest.fixture
def misplaced() -> ProbeRun:
    """Every rank on GPU 0, a mismatch on ranks 1 to 3, and a hang with rank 2 apart."""

    def held(gpu: int, moment: int) -> list[tuple[int, int | None]]:
        if gpu == 3:
            return [(900, None)]
        if gpu != 0:
            return []
        return [
            (100 + rank, MIB * min(120 + 30 * (moment - 2 - rank), 512 + 7 * rank))
            for rank in range(4)
            if moment > 2 + rank
        ]

    model = Place("main.py", 13, "model = Net(width=64).cuda()")
    layer = Place("net.py", 11, "return self.layer(torch.from_numpy(x).float().cuda())")
    bare = replace(BARE, code="DDP501", message="4 ranks are on GPU 0: ranks 0-3.", fix=None)
    return run_of(
        samples(held),
        outcome="hung",
        exit_code=None,
        progress=tuple(
            RankProgress(n, 3 - (n == 2), 5, 2.0 if n else None, None, "stopped") for n in range(4)
        ),
        openings=tuple(Opening(n, 100 + n, 0, 1.5 + n / 10, model, wrong=n != 0) for n in range(4)),
        mismatches=tuple(
            Mismatch(
                n,
                "aten.addmm",
                (
                    TensorSeen("x", "variable", (64, 64), "torch.float32", "cuda:0", layer),
                    TensorSeen("layer.weight", "parameter", (10, 64), "torch.float32", f"cuda:{n}"),
                ),
                "layer",
                layer,
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cuda:{n}!",
            )
            for n in (1, 2, 3)
        ),
        stacks=(
            StackGroup(
                (0, 1, 3),
                Waiting("all_reduce", 12, "the default group", (0, 1, 2, 3)),
                tuple(f"main.py:{40 - depth} in step_{depth}" for depth in range(11)),
                Place("main.py", 40, "loss.backward()"),
                odd=False,
            ),
            StackGroup(
                (2,),
                Waiting("barrier", 11, "the default group", (0, 1, 2, 3)),
                ("main.py:44 in save", "main.py:20 in <module>"),
                Place("main.py", 44, "dist.barrier()"),
                odd=True,
            ),
        ),
        failure=Failure(
            2,
            102,
            3.1,
            "RuntimeError",
            "Expected all tensors to be on the same device",
            'Traceback (most recent call last):\n  File "net.py", line 11, in forward\n'
            "RuntimeError: Expected all tensors to be on the same device",
            1,
        ),
        findings=(replace(bare, ranks=(0, 1, 2, 3)),),
    )


@pytest.fixture
def corrected() -> ProbeRun:
    """One rank a GPU."""

    def held(gpu: int, moment: int) -> list[tuple[int, int | None]]:
        at_rest = [(900, None)] if gpu == 3 else []
        if not 2 < moment < 39:
            return at_rest
        return [(100 + gpu, MIB * min(120 + 30 * (moment - 2), 512 + 7 * gpu)), *at_rest]

    return run_of(samples(held))


@pytest.fixture
def comparison(misplaced: ProbeRun, corrected: ProbeRun) -> ProbeReport:
    diff = """--- main.py
+++ main.py
@@ -10,2 +10,3 @@
 def main():
+    torch.cuda.set_device(LOCAL_RANK)
     torch.distributed.init_process_group("nccl")
"""
    return ProbeReport((("misplaced", misplaced), ("corrected", corrected)), diff)
