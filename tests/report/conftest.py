"""The program in program/, findings about it, and snapshots of what the reporters print."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
