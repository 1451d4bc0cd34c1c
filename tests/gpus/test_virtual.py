"""The virtual GPUs' ledger read as NVML is read."""

from __future__ import annotations

import os

import pytest

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.placement import RankProcess, place
from ddpdoctor.gpus.virtual import VirtualSource
from ddpdoctor.virtual import ledger
from ddpdoctor.virtual.devices import Machine

MIB = 2**20


def holding(pid, device, size, peak):
    devices = Machine(2).devices()
    return ledger.Holding(pid, device, devices[device].uuid, size, peak, 1.0, "train.py:3")


def test_processes_that_run_and_that_have_ended(tmp_path):
    ledger.create(tmp_path, Machine(2, memory_bytes=1024 * MIB).devices())
    ledger.write(tmp_path, holding(os.getpid(), 0, 5 * MIB, 9 * MIB))
    ledger.write(tmp_path, holding(5_000_000, 1, 0, 7 * MIB))
    source = VirtualSource(tmp_path)
    snapshot = source.snapshot()
    source.close()
    first, second = snapshot.gpus
    assert (first.total_bytes, first.used_bytes) == (1024 * MIB, 5 * MIB)
    assert first.uuid.startswith("GPU-")
    assert (first.processes[0].pid, first.processes[0].bytes) == (os.getpid(), 5 * MIB)
    job = [RankProcess(0, 0, os.getpid()), RankProcess(1, 1, 5_000_000)]
    placement = place([snapshot], job)
    assert [gpu.ranks for gpu in placement.gpus] == [(0,), (1,)]
    assert [gpu.processes[0].peak_bytes for gpu in placement.gpus] == [9 * MIB, 7 * MIB]
    assert second.used_bytes == 0


@pytest.mark.parametrize("content", [None, "", "{", '[{"who": 1}]', "[3]"])
def test_a_folder_that_is_no_ledger_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "devices.json").write_text(content)
    with pytest.raises(DdpdoctorError, match=f"^{tmp_path} is no ledger of virtual GPUs: .+"):
        VirtualSource(tmp_path)
