"""Who opened which real GPU: the first use of CUDA, and each further context.

torch.cuda is played by a few functions; no machine with a GPU runs these tests.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ddpdoctor.probe.agent import contexts
from ddpdoctor.probe.records import Record, Recorder, read_records

_SECONDS = 30


class _Cuda:
    """Two GPUs, as torch.cuda shows them; open: those with a context of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started = False
        self.open: set[int] = set()
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        for name, function in {
            "_lazy_init": self.start,
            "is_initialized": lambda: self.started,
            "device_count": lambda: 2,
            "get_device_properties": lambda index: SimpleNamespace(uuid=f"uuid-{index}"),
        }.items():
            monkeypatch.setattr(torch.cuda, name, function)
        monkeypatch.setattr(
            torch._C, "_cuda_hasPrimaryContext", lambda index: index in self.open, raising=False
        )

    def start(self) -> None:
        self.started = True


def _wait_for(folder: Path, count: int) -> list[Record]:
    deadline = time.monotonic() + _SECONDS
    while len(found := read_records(folder)) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_the_first_use_of_cuda_and_every_context_are_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = _Cuda(monkeypatch)
    contexts.install(Recorder(str(tmp_path)))
    torch.cuda._lazy_init()
    torch.cuda._lazy_init()
    (start,) = read_records(tmp_path)
    assert start.kind == "cuda"
    assert start.facts["visible"] == ["uuid-0", "uuid-1"]
    assert start.facts["place"]["filename"] == __file__
    assert start.facts["place"]["source"] == "torch.cuda._lazy_init()"
    cuda.open.add(1)
    _, second = _wait_for(tmp_path, 2)
    assert (second.kind, second.facts["device"]) == ("context", 1)
    cuda.open.add(0)
    assert [one.facts["device"] for one in _wait_for(tmp_path, 3)[1:]] == [1, 0]


def test_a_build_without_cuda_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = _Cuda(monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", None)
    contexts.install(Recorder(str(tmp_path)))
    assert torch.cuda._lazy_init == cuda.start
