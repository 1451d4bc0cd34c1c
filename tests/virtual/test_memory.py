"""Memory is counted, and ends."""

from __future__ import annotations

import gc

import pytest
import torch

from ddpdoctor.virtual import gpus

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _device():
    with gpus(2, memory="64MiB"):
        yield


def test_allocated_bytes_follow_the_tensors():
    x = torch.ones(MIB, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 4 * MIB
    assert torch.cuda.memory_allocated(0) == 0
    view = x[1:].view(-1)
    half = x.half()
    assert torch.cuda.memory_allocated(1) == 6 * MIB
    del x, half
    gc.collect()
    assert torch.cuda.memory_allocated(1) == 4 * MIB
    assert torch.cuda.max_memory_allocated(1) == 6 * MIB
    torch.cuda.reset_peak_memory_stats(1)
    del view
    gc.collect()
    assert torch.cuda.memory_allocated(1) == 0
    assert torch.cuda.max_memory_allocated(1) == 4 * MIB
    assert torch.cuda.memory_stats(1)["allocation.all.allocated"] == 2


def test_gradients_and_activations_count():
    x = torch.ones(MIB // 4, device="cuda", requires_grad=True)
    y = x.exp().sum()
    before = torch.cuda.memory_allocated()
    assert before >= 2 * MIB
    y.backward()
    assert x.grad.device.index == 0
    del y
    gc.collect()
    assert torch.cuda.memory_allocated() == 2 * MIB


def test_a_device_that_is_full_refuses_and_recovers():
    x = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert (
        "CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 64.00 MiB"
        in str(caught.value)
    )
    with pytest.raises(torch.cuda.OutOfMemoryError):
        x.float()
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda:1")
    del x
    gc.collect()
    torch.cuda.empty_cache()
    torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == 2


def test_what_the_host_could_not_hold_is_the_devices_error():
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"Tried to allocate 1048576.00 GiB"):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")


def test_free_memory_leaves_out_the_context():
    free, total = torch.cuda.mem_get_info()
    assert total == 64 * MIB
    assert 0 < free < total
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.mem_get_info()[0] <= free - x.nbytes


def test_resizing_and_emptying_a_storage_count():
    x = torch.ones(MIB, device="cuda")
    x.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == 0
    x.untyped_storage().resize_(8 * MIB)
    assert torch.cuda.memory_allocated() == 8 * MIB
    y = torch.empty(0, device="cuda")
    torch.add(torch.ones(MIB, device="cuda"), 1, out=y)
    assert torch.cuda.memory_allocated() == 12 * MIB


def test_labels_leak_nothing_over_ten_thousand_steps():
    weight = torch.ones(4, device="cuda", requires_grad=True)
    x = torch.ones(4, device="cuda")

    def step():
        (weight * x).sum().backward()
        with torch.no_grad():
            weight.sub_(weight.grad)
        weight.grad = None

    for _ in range(10):
        step()
    gc.collect()
    allocated, objects = torch.cuda.memory_allocated(), len(gc.get_objects())
    for _ in range(10_000):
        step()
    gc.collect()
    assert torch.cuda.memory_allocated() == allocated
    assert len(gc.get_objects()) < objects + 200
