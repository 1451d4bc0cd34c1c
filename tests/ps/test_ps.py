"""`ddpdoctor ps` on jobs that it did not start, over the mock NVML and over a ledger.

Other jobs may run on the machine meanwhile: each test looks at its own pids.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from ddpdoctor.virtual import ledger
from ddpdoctor.virtual.devices import Machine

MIB = 2**20
# Starts a worker with the same environment, as a data loader does, and tells its pid.
WITH_WORKER = (
    "import subprocess, sys, time\n"
    "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
    "print(worker.pid, flush=True); time.sleep(300)"
)


def run(mock_nvml, *arguments, **environ):
    return subprocess.run(
        mock_nvml.command("ps", *arguments),
        env={**mock_nvml.environment(), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def view(mock_nvml, code, *arguments, **environ):
    done = run(mock_nvml, "--output-format", "json", *arguments, **environ)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def ranks(answer, pids):
    return [row for row in answer["ranks"] if row["pid"] in pids]


def found(answer):
    return [(finding["code"], finding["ranks"]) for finding in answer["findings"]]


def test_four_ranks_on_gpu_0(mock_nvml, start_job):
    pids = start_job(4)
    mock_nvml.gpus(4, *(f"proc 0 {pid} {500 * MIB} C" for pid in pids))
    answer = view(mock_nvml, 1)
    assert (answer["schema"], answer["source"]) == (1, "nvml")
    rows = ranks(answer, pids)
    assert [(row["rank"], row["pid"]) for row in rows] == list(enumerate(pids))
    assert [row["own"] for row in rows] == [0, 1, 2, 3]
    assert [row["devices"] for row in rows] == [[0]] * 4
    job = rows[0]["job"]
    assert answer["jobs"][job]["world_size"] == 4
    on_0 = answer["gpus"][0]["processes"]
    assert [(p["rank"], p["pid"], p["bytes"], p["job"]) for p in on_0] == [
        (rank, pid, 500 * MIB, job) for rank, pid in enumerate(pids)
    ]
    assert answer["gpus"][1]["processes"] == []
    assert found(answer) == [("DDP501", [0, 1, 2, 3])]
    assert answer["findings"][0]["job"] == job
    assert "4 ranks are on GPU 0 (NVIDIA H100): ranks 0-3." in run(mock_nvml).stdout


def test_one_rank_a_gpu(mock_nvml, start_job):
    pids = start_job(2)
    mock_nvml.gpus(2, *(f"proc {rank} {pid} {MIB} C" for rank, pid in enumerate(pids)))
    assert found(view(mock_nvml, 0)) == []
    done = run(mock_nvml)
    assert done.returncode == 0
    assert ": 2 ranks, started by process " in done.stdout
    assert "No misplacement found." in done.stdout


def test_a_context_left_on_gpu_0(mock_nvml, start_job):
    pids = start_job(2)
    lines = [f"proc {rank} {pid} {900 * MIB} C" for rank, pid in enumerate(pids)]
    mock_nvml.gpus(2, *lines, f"proc 0 {pids[1]} {500 * MIB} C")
    assert found(view(mock_nvml, 1)) == [("DDP502", [1])]


def test_more_ranks_than_gpus(mock_nvml, start_job):
    pids = start_job(2)
    mock_nvml.gpus(1, *(f"proc 0 {pid} {MIB} C" for pid in pids))
    assert found(view(mock_nvml, 1)) == [("DDP505", [0, 1])]


def test_the_mask_in_a_ranks_environment_is_followed(mock_nvml, start_job):
    pids = start_job(2, CUDA_VISIBLE_DEVICES="1,GPU-00000000")
    mock_nvml.gpus(2, f"proc 1 {pids[0]} {MIB} C", f"proc 0 {pids[1]} {MIB} C")
    assert [row["own"] for row in ranks(view(mock_nvml, 0), pids)] == [1, 0]


@pytest.mark.parametrize(
    "names",
    [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ],
)
def test_ranks_of_other_launchers(mock_nvml, start, names):
    pids = [start(**dict(zip(names, (4 + i, i, 8), strict=True))).pid for i in range(2)]
    mock_nvml.gpus(2, *(f"proc 0 {pid} {MIB} C" for pid in pids))
    answer = view(mock_nvml, 1)
    rows = ranks(answer, pids)
    assert [(row["rank"], row["local_rank"]) for row in rows] == [(4, 0), (5, 1)]
    assert found(answer) == [("DDP501", [4, 5])]
    assert ": 2 ranks of 8, " in run(mock_nvml).stdout


def test_a_worker_of_a_rank_counts_as_the_rank(mock_nvml, start):
    rank = start(WITH_WORKER, RANK=1, LOCAL_RANK=1, WORLD_SIZE=2)
    worker = int(rank.stdout.readline())
    mock_nvml.gpus(2, f"proc 1 {rank.pid} {MIB} C", f"proc 0 {worker} {MIB} C")
    answer = view(mock_nvml, 1)
    assert [row["rank"] for row in ranks(answer, [rank.pid])] == [1]
    assert ranks(answer, [worker]) == []
    assert answer["gpus"][0]["processes"][0]["rank"] == 1
    assert found(answer) == [("DDP502", [1])]


def test_two_jobs_are_kept_apart(mock_nvml, start_job):
    first, second = start_job(2, port=29501), start_job(2, port=29502)
    mock_nvml.gpus(
        4,
        *(f"proc {i} {pid} {MIB} C" for i, pid in enumerate(first)),
        *(f"proc 0 {pid} {MIB} C" for pid in second),
    )
    answer = view(mock_nvml, 1)
    one, other = ranks(answer, first)[0]["job"], ranks(answer, second)[0]["job"]
    assert one != other
    assert [(f["code"], f["job"]) for f in answer["findings"]] == [("DDP501", other)]
    on_0 = {(p["job"], p["rank"], p["pid"]) for p in answer["gpus"][0]["processes"]}
    assert on_0 == {(one, 0, first[0]), (other, 0, second[0]), (other, 1, second[1])}


def test_a_process_without_a_rank_is_shown_with_the_reason(mock_nvml, start, start_job):
    [rank], lone = start_job(1), start(RANK="one", WORLD_SIZE="2")
    mock_nvml.gpus(2, f"proc 0 {rank} {MIB} C", f"proc 1 {lone.pid} {MIB} C")
    [process] = view(mock_nvml, 0)["gpus"][1]["processes"]
    assert (process["pid"], process["rank"], process["job"]) == (lone.pid, None, None)
    assert process["note"].endswith(": no rank in its environment")
    assert f"GPU 1: pid {lone.pid}, " in run(mock_nvml).stdout


def test_a_rank_in_the_environment_of_what_uses_no_gpu_is_no_job(mock_nvml, start_job):
    pids = start_job(2)
    mock_nvml.gpus(2)
    assert ranks(view(mock_nvml, 0), pids) == []


def test_a_job_of_torchrun_that_hangs_before_cuda(mock_nvml, torchrun):
    launcher, pids = torchrun
    mock_nvml.gpus(1)
    answer = view(mock_nvml, 0)
    rows = ranks(answer, pids)
    assert [(row["pid"], row["devices"]) for row in rows] == [(pid, []) for pid in pids]
    assert answer["jobs"][rows[0]["job"]]["launcher"]["pid"] == launcher
    text = run(mock_nvml).stdout
    assert f": 2 ranks, started by torchrun {launcher}" in text
    assert "No rank holds memory on a GPU." in text


def test_pids_of_another_namespace_are_a_mismatch_and_not_an_empty_machine(mock_nvml, torchrun):
    _launcher, pids = torchrun
    mock_nvml.gpus(2, f"proc 0 5000001 {MIB} C", f"proc 0 5000002 {MIB} C")
    answer = view(mock_nvml, 0)
    assert answer["jobs"][ranks(answer, pids)[0]["job"]]["pid_mismatch"]
    assert answer["problems"][0].startswith("pid namespace mismatch")
    text = run(mock_nvml).stdout
    assert "pid namespace mismatch" in text
    assert "No rank holds memory" not in text


def test_a_lost_gpu_is_named(mock_nvml, start_job):
    pids = start_job(2)
    mock_nvml.gpus(2, f"proc 1 {pids[1]} {MIB} C", "fail * 15 0")
    assert "GPU 0: NVML says 'GPU is lost'" in view(mock_nvml, 0)["problems"]
    assert "note: GPU 0: NVML says 'GPU is lost'" in run(mock_nvml).stdout


def test_a_machine_without_gpus_gets_one_clear_line(mock_nvml):
    done = run(mock_nvml)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ddpdoctor: the NVIDIA driver reports no GPU on this machine (to look at a run on virtual "
        "GPUs, give its ledger: --ledger FOLDER)\n"
    )


def test_a_folder_that_is_no_ledger_gets_one_clear_line(mock_nvml, tmp_path):
    done = run(mock_nvml, "--ledger", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"ddpdoctor: {tmp_path} is no ledger of virtual GPUs")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("by_variable", [False, True])
def test_virtual_gpus_by_their_ledger(mock_nvml, start, start_job, tmp_path, by_variable):
    pids, ended = start_job(2), start("import sys; sys.stdin.read()")
    device = Machine(2).devices()[0]
    ledger.create(tmp_path, Machine(2).devices())
    for pid in (*pids, ended.pid):
        held = ledger.Holding(pid, 0, device.uuid, 5 * MIB, 5 * MIB, 1.0, "train.py:3")
        ledger.write(tmp_path, held)
    ended.kill()
    ended.wait(timeout=30)
    if by_variable:
        answer = view(mock_nvml, 1, DDPDOCTOR_LEDGER=str(tmp_path))
    else:
        answer = view(mock_nvml, 1, "--ledger", str(tmp_path))
    assert answer["source"] == "virtual"
    assert [process["pid"] for process in answer["gpus"][0]["processes"]] == pids
    assert found(answer) == [("DDP501", [0, 1])]
    assert answer["problems"] == []
