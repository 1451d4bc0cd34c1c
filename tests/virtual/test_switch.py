"""Virtual GPUs come and go without a trace."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from ddpdoctor.virtual import gpus

OWNERS = [
    torch, torch.Tensor, torch._C, torch.cuda, torch.linalg, torch.UntypedStorage, torch.version,
    torch.distributed, torch.distributed.distributed_c10d, torch.cuda.streams, threading.Thread,
    torch.distributed.ProcessGroup, torch.multiprocessing.reductions, torch.backends.cudnn,
    torch._utils, torch.serialization, torch.nn.functional, torch._C._nn,
]  # fmt: skip


def snapshot():
    return {
        (owner.__name__, name): id(value)
        for owner in OWNERS
        for name, value in vars(owner).items()
        if not name.startswith("__")
    }


def test_everything_is_put_back():
    with gpus(1):
        pass  # what torch imports on the way
    environ, before = dict(os.environ), snapshot()
    with gpus(2):
        torch.ones(1).cuda()
        with torch.autocast("cuda"):
            torch.ones(2, device="cuda").softmax(0)
        assert snapshot() != before
    assert snapshot() == before
    assert dict(os.environ) == environ
    assert not torch.cuda.is_available()
    assert torch.ones(1).device.type == "cpu"


def test_each_block_is_a_machine_of_its_own():
    for count in (3, 1):
        with gpus(count, memory="1GiB"):
            assert torch.cuda.device_count() == count
            assert torch.cuda.memory_allocated() == 0
            torch.cuda.set_device(count - 1)


def test_blocks_do_not_nest():
    with gpus(1), pytest.raises(RuntimeError, match="on already"), gpus(1):
        pass


def test_an_error_inside_switches_off_too():
    with pytest.raises(ZeroDivisionError), gpus(1):
        raise ZeroDivisionError
    assert not torch.cuda.is_available()


@pytest.mark.parametrize("count", [0, -1])
def test_a_machine_has_gpus(count):
    with pytest.raises(ValueError, match="at least one"), gpus(count):
        pass


@pytest.mark.virtual_gpus(5, memory="2GiB")
def test_the_marker_gives_a_test_its_gpus():
    assert torch.cuda.device_count() == 5
    assert torch.cuda.get_device_properties(4).total_memory == 2 << 30


def test_the_fixture_alone_gives_two(virtual_gpus):
    assert torch.cuda.device_count() == virtual_gpus == 2
