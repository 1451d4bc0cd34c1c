"""Which mixes of devices are refused, and in which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.virtual import observers, on_context, on_mismatch

ORACLE = Path(__file__).parents[2] / "benchmarks" / "virtual_oracle.py"
GPU = pytest.mark.virtual_gpus(2)
NEW_WORDS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)


@pytest.fixture
def heard():
    """What observers are told."""
    kept = list(observers.context_callbacks), list(observers.mismatch_callbacks)
    told = []
    on_context(lambda index: told.append(index))
    on_mismatch(lambda name, tensors, message: told.append((name, len(tensors), message)))
    yield told
    observers.context_callbacks[:], observers.mismatch_callbacks[:] = kept


@GPU
@pytest.mark.parametrize(
    "operation",
    [
        lambda gpu, cpu: gpu + cpu.sum(),
        lambda gpu, cpu: cpu.sum() * gpu,
        lambda gpu, cpu: torch.where(gpu > 0, gpu, cpu.sum()),
        lambda gpu, cpu: gpu.masked_fill(gpu > 0, cpu.sum()),
        lambda gpu, cpu: gpu[cpu.long()],
        lambda gpu, cpu: gpu.index_put((cpu.long(),), gpu),
        lambda gpu, cpu: gpu.copy_(cpu),
        lambda gpu, cpu: gpu.clone().fill_(cpu.sum()),
        lambda gpu, cpu: gpu.slice_scatter(cpu[:1], 0, 0, 1),
        lambda gpu, cpu: gpu.lerp(gpu, cpu.sum()),
        lambda gpu, cpu: torch._foreach_add([gpu], [gpu])[0],
    ],
)
def test_accepted(operation):
    result = operation(torch.ones(2, device="cuda:1"), torch.ones(2))
    assert result.device == torch.device("cuda:1")


@GPU
@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (lambda gpu, cpu: gpu + cpu, "found at least two devices, cuda:1 and cpu!"),
        (lambda gpu, cpu: cpu + gpu, "found at least two devices, cuda:1 and cpu!"),
        (lambda gpu, cpu: cpu + gpu.sum(), "found at least two devices, cuda:1 and cpu!"),
        (lambda gpu, cpu: gpu + gpu.to(0), "found at least two devices, cuda:1 and cuda:0!"),
        (lambda gpu, cpu: gpu.add_(cpu), "found at least two devices"),
        (lambda gpu, cpu: torch.add(gpu, gpu, out=cpu), "found at least two devices"),
        (lambda gpu, cpu: gpu @ cpu, "wrapper_CUDA__dot"),
        (lambda gpu, cpu: nn.functional.linear(gpu[None], cpu[None]), "wrapper_CUDA_mm"),
        (lambda gpu, cpu: torch.cat([gpu, cpu]), "wrapper_CUDA_cat"),
        (lambda gpu, cpu: gpu.index_select(0, cpu.long()), "wrapper_CUDA__index_select"),
        (lambda gpu, cpu: gpu.gather(0, cpu.sum().long()), "wrapper_CUDA_gather"),
        (
            lambda gpu, cpu: nn.functional.embedding(cpu.long(), gpu[None]),
            "wrapper_CUDA__index_select",
        ),
        (lambda gpu, cpu: torch._foreach_add([gpu], [cpu]), "found at least two devices"),
        (lambda gpu, cpu: cpu[gpu.long()], "indices should be either on cpu"),
        (lambda gpu, cpu: torch.meshgrid(gpu, cpu, indexing="ij"), "to have the same device"),
        (
            lambda gpu, cpu: nn.functional.conv1d(cpu[None], gpu[None, None]),
            r"Input type \(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\)",
        ),
    ],
)
def test_refused(operation, words):
    with pytest.raises(RuntimeError, match=words):
        operation(torch.zeros(2, device="cuda:1"), torch.zeros(2))


@GPU
def test_the_words_of_a_kernels_own_check():
    layer = nn.Linear(2, 2).to(1)
    words = (
        "Expected all tensors to be on the same device, but got mat1 is on cuda:0, different from "
        "other tensors on cuda:1 (when checking argument in method wrapper_CUDA_addmm)"
        if NEW_WORDS
        else "Expected all tensors to be on the same device, but found at least two devices, "
        "cuda:1 and cuda:0! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)"
    )
    with pytest.raises(RuntimeError) as caught:
        layer(torch.ones(1, 2, device="cuda:0"))
    assert str(caught.value) == words


@GPU
def test_observers_are_told_of_contexts_and_refusals(heard):
    x = torch.ones(2, device="cuda:1")
    with pytest.raises(RuntimeError) as caught:
        x + torch.ones(2)
    assert heard == [1, ("add", 2, str(caught.value))]


def test_pytorchs_own_device_propagation_agrees(tmp_path):
    """A sample of torch's operation database; benchmarks/virtual_oracle.py runs all of it."""
    pytest.importorskip("expecttest")
    command = [
        sys.executable,
        ORACLE,
        "--every",
        "15",
        "--samples",
        "1",
        "--json",
        tmp_path / "out",
    ]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    figures = json.loads((tmp_path / "out").read_text())
    # FakeTensor takes any mix for this operation and returns at once.
    odd = [each for each in figures["disagreements"] if "linear_cross_entropy" not in each[0]]
    assert odd == []
    assert figures["decisions"] > 100
