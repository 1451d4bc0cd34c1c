"""Several nodes: one report on the first, a clear error where they do not meet."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.gpus.placement import GpuRow, Occupant, Placement, RankRow
from ddpdoctor.probe import nodes, wire
from ddpdoctor.probe.results import Failure, Place, ProbeRun, StackGroup, Waiting

_PROGRAM = """
import os
import torch, torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
print("sum", total.item())
dist.destroy_process_group()
"""


def _free_port() -> int:
    """A port that is free together with the next one."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two free ports side by side")


def _start(node: int, port: int, script: Path, timeout: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "ddpdoctor", "probe", "--virtual", "--output-format", "json"),
            *("--nnodes", "2", "--node-rank", str(node), "--nproc", str(1 + node)),
            *("--rdzv-endpoint", f"127.0.0.1:{port}", "--timeout", str(timeout), str(script)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_two_nodes_give_one_report_on_the_first(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    port = _free_port()
    started = [_start(node, port, script, 120) for node in (0, 1)]
    said = [process.communicate(timeout=200) for process in started]
    first, second = (json.loads(out) for out, _ in said)
    assert list(first["runs"]) == ["node 0", "node 1"]
    assert [one["rank"] for one in first["runs"]["node 0"]["ranks"]] == [0]
    assert [one["rank"] for one in first["runs"]["node 1"]["ranks"]] == [1, 2]
    assert [one["local_rank"] for one in first["runs"]["node 1"]["ranks"]] == [0, 1]
    assert first["world_size"] == 3
    assert first["runs"]["node 0"]["output"] == ["sum 3.0"]
    assert [one["code"] for one in first["findings"]] == ["DDP506"]
    assert "the report of all 2 nodes is on the first one, 127.0.0.1" in second["notes"]
    assert [process.returncode for process in started] == [1, 0]


def test_a_node_that_never_comes_is_a_clear_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    process = _start(0, _free_port(), script, 3)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert out == ""
    assert "the 2 nodes did not meet at 127.0.0.1" in err
    assert err.count("\n") == 1


def _run() -> ProbeRun:
    occupant = Occupant(4711, 0, 450 << 20, ((1.5, 450 << 20), (2.0, None)))
    gpu = GpuRow(0, "GPU-1", "Virtual GPU", 80 << 30, (occupant,))
    return ProbeRun(
        command=("train.py",),
        source="virtual",
        started=1.0,
        outcome="hung",
        idle=30.0,
        exit_code=None,
        seconds=9.5,
        world_size=2,
        run_folder="/tmp/ddpdoctor-x",
        placement=Placement((RankRow(0, 0, 4711, 0, (0,), ("GPU-1",)),), (gpu,), (), False),
        progress=(),
        openings=(),
        mismatches=(),
        stacks=(
            StackGroup(
                (0,), Waiting("barrier", 2, "group 1", (0, 1)), ("a:1 in b",), Place("a", 1), True
            ),
        ),
        failure=Failure(0, 4711, 3.0, "ValueError", "no", "", 1),
        findings=(),
        output=("é",),
        notes=(),
    )


def test_a_run_comes_through_the_wire_as_it_was() -> None:
    assert wire.decode(wire.encode(_run())) == _run()


def test_the_first_node_takes_reports_and_ignores_strangers() -> None:
    port = _free_port()
    collector = nodes.Collector("127.0.0.1", port)
    try:

        def come() -> None:
            for packed in (b"GET / HTTP/1.1\r\n\r\n", b'1\n{"command": 3}', b""):
                with socket.create_connection(("127.0.0.1", port + 1)) as stranger:
                    stranger.sendall(packed)
            nodes.send("127.0.0.1", port, 1, _run())

        comer = threading.Thread(target=come)
        comer.start()
        assert collector.collect(2) == {1: _run()}
        comer.join(60)
    finally:
        collector.close()


def test_a_first_node_that_is_gone_is_told_with_the_logs_place() -> None:
    with pytest.raises(DdpdoctorError, match=r"logs are in /tmp/ddpdoctor-x"):
        nodes.send("127.0.0.1", _free_port(), 1, _run())


def test_the_odd_rank_of_all_nodes_stands_out_in_the_report_of_the_first() -> None:
    waiting = _run()
    elsewhere = StackGroup((1,), None, ("b:2 in c",), Place("b", 2), False)
    first = nodes.of_all([waiting, replace(waiting, stacks=(elsewhere,))])
    assert [(one.ranks, one.odd) for one in first.stacks] == [((1,), True), ((0,), False)]
    (finding,) = first.findings
    assert (finding.code, finding.ranks, finding.filename) == ("DDP504", (1,), "b")


def test_nodes_that_differ_are_a_finding_and_equal_ones_none() -> None:
    run = replace(_run(), stacks=())
    other = replace(run, placement=replace(run.placement, gpus=run.placement.gpus * 2))
    assert nodes.of_all([run, run]).findings == ()
    (finding,) = nodes.of_all([run, other]).findings
    assert finding.code == "DDP506"
    assert (
        finding.message == "The nodes differ: node 0: 1 ranks on 1 GPUs; node 1: 1 ranks on 2 GPUs."
    )


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu[03-05,09]", "gpu03"), ("a1,b2", "a1"), ("rack[1,7]-ib", "rack1-ib"), ("one", "one")],
)
def test_a_step_of_srun_is_a_job_on_its_nodes(nodelist: str, host: str) -> None:
    step = {
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": nodelist,
        "SLURM_NODEID": "1",
        "SLURM_JOB_ID": "123456",
    }
    assert nodes.slurm_nodes(step) == (2, 1, f"{host}:23456")


def test_a_step_with_several_tasks_a_node_is_refused() -> None:
    step = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "16"}
    with pytest.raises(DdpdoctorError, match="--ntasks-per-node=1"):
        nodes.slurm_nodes(step)


def test_a_batch_shell_on_one_node_is_no_such_step() -> None:
    assert nodes.slurm_nodes({"SLURM_NNODES": "4", "SLURM_NODEID": "0"}) is None
