"""torch.distributed on virtual GPUs: the same figures as gloo on the CPU, and NCCL's rules."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def figures(torchrun):
    """The figures of every way to train in parallel, on virtual GPUs and on the plain CPU."""
    runs = {}
    for kind, gpus in (("cuda", 4), ("cpu", 0)):
        done = torchrun(2, PROGRAMS / "parallel.py", kind, gpus=gpus)
        assert done.returncode == 0, done.stderr[-4000:]
        runs[kind] = json.loads(done.stdout.splitlines()[-1])
    return runs


@pytest.mark.parametrize(
    "scenario",
    [
        "plain",
        "static_graph_bucket_view",
        "no_sync",
        "comm_hooks",
        "model_parallel",
        "join",
        "zero",
        "fsdp2",
        "tensor_parallel",
        "collectives",
        "sync_batch_norm",
        "checkpoint",
    ],
)
def test_training_in_parallel_gives_the_cpus_figures_bit_for_bit(figures, scenario):
    if figures["cpu"][scenario] is None:
        pytest.skip("this torch has no public API for it")
    assert figures["cuda"][scenario] == figures["cpu"][scenario]


def test_fsdp1_gives_fsdp2s_figures(figures):
    # FSDP1 refuses a machine without an accelerator, so the CPU has no figures for it.
    if figures["cuda"]["fsdp2"] is None:
        pytest.skip("this torch has no public API for FSDP2")
    assert figures["cuda"]["fsdp1"] == figures["cuda"]["fsdp2"] * 2


@pytest.fixture(scope="module")
def unbound(torchrun):
    """What rank 1 meets where no rank chose its GPU: three attempts, three errors."""
    done = torchrun(2, PROGRAMS / "rules.py", "unbound", gpus=2)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_ranks_on_one_gpu_are_refused_in_nccls_words(unbound):
    assert unbound.startswith("DistBackendError: NCCL error in: ")
    assert "ncclInvalidUsage: This usually reflects invalid usage of NCCL library." in unbound
    assert "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10000" in unbound


def test_object_collectives_go_through_the_current_device(unbound):
    assert unbound.count("Duplicate GPU detected") == 2


def test_an_input_on_the_wrong_gpu_is_refused_in_pytorchs_words(unbound):
    last = unbound.splitlines()[-1]
    assert last.startswith("RuntimeError: Expected all tensors to be on the same device, but ")
    assert "cuda:0" in last
    assert "cuda:1" in last


def test_device_id_forms_the_communicator_at_once(torchrun):
    done = torchrun(2, PROGRAMS / "rules.py", "eager", gpus=2)
    assert "Duplicate GPU detected" in done.stderr
    assert "in init_process_group" in done.stderr


def test_a_barrier_opens_the_current_device_and_runs_on_the_ranks_own(torchrun):
    # ProcessGroup.hpp makes a tensor on the current device to choose the backend by.
    done = torchrun(2, PROGRAMS / "rules.py", "barrier", gpus=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "[[0], [0, 1]]\n"


def test_unused_parameters_are_found_on_a_model_of_two_gpus(torchrun):
    done = torchrun(2, PROGRAMS / "rules.py", "unused", gpus=4)
    assert "Expected to have finished reduction in the prior iteration" in done.stderr


def test_a_rank_that_never_comes_ends_in_a_diagnosis(torchrun):
    done = torchrun(2, PROGRAMS / "rules.py", "absent", gpus=2)
    assert "rank 0 waited 0:00:05 for rank 1 to join the NCCL communicator" in done.stderr


def test_two_nodes_on_one_machine_have_their_own_gpus(torchrun):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"

    def node(number):
        options = ("--nnodes=2", f"--node-rank={number}", "--rdzv-backend=c10d")
        options += (f"--rdzv-endpoint={endpoint}",)
        return torchrun(1, PROGRAMS / "rules.py", "nodes", gpus=1, node=options)

    with ThreadPoolExecutor() as pool:
        done = list(pool.map(node, range(2)))
    assert [each.returncode for each in done] == [0, 0], done[0].stderr[-3000:]
    assert sorted(each.stdout for each in done) == ["2.0 0 0\n", "2.0 0 1\n"]


def test_which_tensors_a_group_takes(torchrun):
    done = torchrun(2, PROGRAMS / "rules.py", "several", gpus=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "RuntimeError: No backend type associated with device type cpu",
        "DistBackendError: Attempt to perform collective on tensor not on device passed to "
        "init_process_group",
        "ValueError: Tensors must be CUDA and dense",
        "monitored_barrier is only implemented for GLOO backend.",
        "[0.5, 1.0]",
        "[0, 1]",
        "4.0 [0, 1] 2097152",
    ]
