"""The NVML source over the real binding, on machines that the mock library plays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20

# Takes a snapshot, then one after each change of the machine, and prints them all.
WATCH = """
import dataclasses, json, os, sys
from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.nvml import NvmlSource
try:
    source = NvmlSource()
except DdpdoctorError as error:
    sys.exit(f"{type(error).__name__}: {error}")
snapshots = [source.snapshot()]
for text in json.loads(os.environ.get("CHANGES", "[]")):
    open(os.environ["MOCK_NVML_STATE"], "w").write(text)
    snapshots.append(source.snapshot())
source.close()
print(json.dumps([dataclasses.asdict(snapshot) for snapshot in snapshots]))
"""


def watch(mock_nvml, changes=()):
    done = mock_nvml.python(WATCH, CHANGES=json.dumps(list(changes)))
    assert done.returncode == 0, done.stderr
    return [snapshot["gpus"] for snapshot in json.loads(done.stdout)]


def held(gpu):
    return {process["pid"]: process["bytes"] for process in gpu["processes"]}


def test_a_gpu_has_its_uuid_name_and_memory(mock_nvml):
    mock_nvml.gpus(2, f"proc 1 4001 {700 * MIB} C")
    [[first, second]] = watch(mock_nvml)
    assert (first["index"], second["index"]) == (0, 1)
    assert second["uuid"] == mock_nvml.uuid(1)
    assert second["name"] == "NVIDIA H100"
    assert second["total_bytes"] == 81559 * MIB
    assert second["used_bytes"] == 700 * MIB
    assert held(first) == {}
    assert held(second) == {4001: 700 * MIB}
    assert first["problem"] is None


def test_eight_processes_on_gpu_0(mock_nvml):
    mock_nvml.gpus(8, *(f"proc 0 {5000 + rank} {(rank + 1) * MIB} C" for rank in range(8)))
    [gpus] = watch(mock_nvml)
    assert held(gpus[0]) == {5000 + rank: (rank + 1) * MIB for rank in range(8)}
    assert all(held(gpu) == {} for gpu in gpus[1:])


def test_processes_listed_at_0_bytes_are_not_there(mock_nvml):
    mock_nvml.gpus(2, f"proc 0 4000 {MIB} C", "proc 1 4000 0 C")
    [[first, second]] = watch(mock_nvml)
    assert held(first) == {4000: MIB}
    assert held(second) == {}


def test_unknown_memory_is_unknown_and_not_zero(mock_nvml):
    mock_nvml.gpus(1, "proc 0 4000 - C")
    [[gpu]] = watch(mock_nvml)
    assert held(gpu) == {4000: None}


@pytest.mark.parametrize("size", [16, 24, 32])
def test_records_of_any_size_are_read(mock_nvml, size):
    processes = {4000 + i: (i + 1) * MIB for i in range(3)}
    mock_nvml.gpus(
        1, f"records {size}", *(f"proc 0 {pid} {used} C" for pid, used in processes.items())
    )
    [[gpu]] = watch(mock_nvml)
    assert held(gpu) == processes


def test_the_binding_alone_reads_long_records_wrongly(mock_nvml):
    """Or else this project's own reading of the records could be dropped."""
    mock_nvml.gpus(1, "records 32", "proc 0 4000 1000 C", "proc 0 4001 1000 C")
    done = mock_nvml.python(
        "import pynvml; pynvml.nvmlInit(); handle = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
        "print([p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)])"
    )
    assert done.stdout.startswith("[4000, ")
    assert done.stdout != "[4000, 4001]\n"


def test_a_process_in_several_lists_counts_once(mock_nvml):
    mock_nvml.gpus(
        1,
        f"proc 0 4000 {2 * MIB} C",
        f"proc 0 4000 {3 * MIB} G",
        f"proc 0 4001 {5 * MIB} M",
        f"proc 0 4002 {7 * MIB} G",
        "proc 0 4003 - C",
        f"proc 0 4003 {MIB} G",
    )
    [[gpu]] = watch(mock_nvml)
    assert held(gpu) == {4000: 3 * MIB, 4001: 5 * MIB, 4002: 7 * MIB, 4003: MIB}


def test_mig_instances_stand_in_the_place_of_their_gpu(mock_nvml):
    mock_nvml.gpus(
        2,
        "mig 0 MIG-aaaaaaaa-0000-0000-0000-000000000001 1 0 9856 NVIDIA H100 MIG 1g.10gb",
        "mig 0 MIG-aaaaaaaa-0000-0000-0000-000000000003 3 0 9856 NVIDIA H100 MIG 1g.10gb",
        f"proc MIG-aaaaaaaa-0000-0000-0000-000000000003 4000 {MIB} C",
    )
    [[first, third, whole]] = watch(mock_nvml)
    assert [gpu["index"] for gpu in (first, third, whole)] == [0, 1, 2]
    assert first["uuid"] == "MIG-aaaaaaaa-0000-0000-0000-000000000001"
    assert first["total_bytes"] == 9856 * MIB
    assert held(first) == {}
    assert held(third) == {4000: MIB}
    assert third["mig"] == {
        "parent_uuid": mock_nvml.uuid(0),
        "gpu_instance": 3,
        "compute_instance": 0,
    }
    assert whole["uuid"] == mock_nvml.uuid(1)
    assert whole["mig"] is None


def test_mig_without_an_instance_is_said(mock_nvml):
    mock_nvml.gpus(2, "mig 1")
    [[whole, cut]] = watch(mock_nvml)
    assert whole["problem"] is None
    assert cut["uuid"] == mock_nvml.uuid(1)
    assert cut["problem"] == "MIG is on, but has no instance"


def test_memory_that_cannot_be_asked_leaves_the_processes(mock_nvml):
    mock_nvml.write(f"gpu GPU-1 00000000:01:00.0 - NVIDIA GB10\nproc 0 4000 {MIB} C\n")
    [[gpu]] = watch(mock_nvml)
    assert (gpu["total_bytes"], gpu["used_bytes"], gpu["problem"]) == (None, None, None)
    assert held(gpu) == {4000: MIB}


@pytest.mark.parametrize(
    ("code", "text"), [(3, "Not Supported"), (4, "Insufficient Permissions"), (999, "Unknown")]
)
def test_a_process_list_that_fails_is_named_and_the_rest_goes_on(mock_nvml, code, text):
    mock_nvml.gpus(
        2,
        f"fail nvmlDeviceGetComputeRunningProcesses_v3 {code} 0",
        f"proc 0 4000 {MIB} C",
        f"proc 0 4001 {MIB} G",
        f"proc 1 4002 {MIB} C",
    )
    [[first, second]] = watch(mock_nvml)
    assert text in first["problem"]
    assert "compute processes" in first["problem"]
    assert held(first) == {4001: MIB}
    assert second["problem"] is None
    assert held(second) == {4002: MIB}


def test_a_card_without_graphics_or_mps_list_has_no_problem(mock_nvml):
    mock_nvml.gpus(
        1,
        "fail nvmlDeviceGetGraphicsRunningProcesses_v3 3",
        "fail nvmlDeviceGetMPSComputeRunningProcesses_v3 3",
        f"proc 0 4000 {MIB} C",
    )
    [[gpu]] = watch(mock_nvml)
    assert gpu["problem"] is None
    assert held(gpu) == {4000: MIB}


@pytest.mark.parametrize(
    ("symbol", "what"),
    [
        ("nvmlDeviceGetUUID", "its UUID"),
        ("nvmlDeviceGetName", "its name"),
        ("nvmlDeviceGetMemoryInfo", "its memory"),
    ],
)
def test_one_call_that_fails_is_named_and_the_rest_goes_on(mock_nvml, symbol, what):
    mock_nvml.gpus(2, f"proc 0 4000 {MIB} C")
    healthy = mock_nvml.state.read_text()
    [before, after] = watch(mock_nvml, [healthy + f"fail {symbol} 4 0\n"])
    assert after[0]["problem"] == f"NVML says 'Insufficient Permissions' when asked for {what}"
    assert held(after[0]) == {4000: MIB}
    assert (after[0]["uuid"], after[0]["name"]) == (mock_nvml.uuid(0), "NVIDIA H100")
    assert after[1] == before[1]


def test_a_gpu_lost_in_the_middle_keeps_its_place(mock_nvml):
    mock_nvml.gpus(2, f"proc 0 4000 {MIB} C", f"proc 1 4001 {MIB} C")
    healthy = mock_nvml.state.read_text()
    [before, lost, back] = watch(mock_nvml, [healthy + "fail * 15 0\n", healthy])
    assert held(before[0]) == {4000: MIB}
    assert lost[0]["uuid"] == mock_nvml.uuid(0)
    assert lost[0]["problem"] == "NVML says 'GPU is lost'"
    assert held(lost[0]) == {}
    assert held(lost[1]) == {4001: MIB}
    assert back == before


def test_a_gpu_lost_from_the_start_keeps_its_place_too(mock_nvml):
    mock_nvml.gpus(2, "fail * 15 0")
    [[lost, fine]] = watch(mock_nvml)
    assert (lost["name"], lost["problem"]) == ("", "NVML says 'GPU is lost'")
    assert (fine["index"], fine["problem"]) == (1, None)


def refusal(mock_nvml, **extra):
    done = mock_nvml.python(WATCH, **extra)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def test_a_driver_without_gpus(mock_nvml):
    assert refusal(mock_nvml) == "NoGpu: the NVIDIA driver reports no GPU on this machine"


def test_a_driver_that_is_not_loaded(mock_nvml):
    mock_nvml.gpus(1, "fail nvmlInitWithFlags 9")
    assert refusal(mock_nvml) == "NoGpu: the NVIDIA driver is not loaded"


def test_a_driver_updated_under_the_running_one(mock_nvml):
    mock_nvml.gpus(1, "fail nvmlInitWithFlags 18")
    assert refusal(mock_nvml) == (
        "DdpdoctorError: the NVIDIA driver was updated while the old one is still loaded: "
        "restart the machine"
    )


@pytest.mark.parametrize("symbol", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_no_permission_for_the_driver(mock_nvml, symbol):
    mock_nvml.gpus(1, f"fail {symbol} 4")
    assert "Insufficient Permissions" in refusal(mock_nvml)
    assert refusal(mock_nvml).startswith("DdpdoctorError: ")


def test_no_driver_at_all():
    done = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, timeout=60)
    if done.returncode == 0 or "was not found" not in done.stderr:
        pytest.skip("this machine has an NVIDIA driver")
    assert done.stderr.strip() == (
        "NoGpu: no NVIDIA driver on this machine: libnvidia-ml.so.1 was not found"
    )


def test_an_old_pynvml_package_in_the_way_is_named(mock_nvml, tmp_path: Path):
    """pynvml 11 is a package, which Python prefers to nvidia-ml-py's file beside it."""
    package = tmp_path / "old" / "pynvml"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .nvml import *\n")
    (package / "nvml.py").write_text(
        "class NVMLError(Exception): pass\ndef nvmlInit(): pass\n"
        "def _nvmlGetFunctionPointer(name): pass\n"
    )
    message = refusal(mock_nvml, PYTHONPATH=str(package.parent))
    assert str(package / "__init__.py") in message
    assert "pip install -U nvidia-ml-py" in message


def test_a_file_of_the_users_named_pynvml_is_named(mock_nvml, tmp_path: Path):
    (tmp_path / "pynvml.py").write_text("GPUS = 8\n")
    assert str(tmp_path / "pynvml.py") in refusal(mock_nvml, PYTHONPATH=str(tmp_path))
