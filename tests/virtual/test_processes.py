"""Forks, spawned processes, data loaders and queues."""

from __future__ import annotations

import os

import pytest
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset, TensorDataset

pytestmark = pytest.mark.virtual_gpus(2)


class TouchesCuda(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.ones(1).cuda()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers_and_pinned_batches(method):
    torch.ones(1).cuda()
    loader = DataLoader(
        TensorDataset(torch.arange(4.0)),
        batch_size=2,
        num_workers=1,
        pin_memory=True,
        multiprocessing_context=method,
    )
    batches = [batch for (batch,) in loader]
    assert torch.cat(batches).tolist() == [0, 1, 2, 3]
    assert all(batch.is_pinned() and not batch.is_cuda for batch in batches)
    assert (batches[0].cuda(1, non_blocking=True) + 1).device.index == 1


def test_cuda_cannot_be_used_in_a_forked_child():
    kept = torch.ones(1).cuda()
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        next(iter(DataLoader(TouchesCuda(), num_workers=1, multiprocessing_context="fork")))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept + 1
            os.write(write, b"it worked")
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"Cannot re-initialize CUDA" in os.read(read, 1000)


def test_cuda_can_start_in_a_child_of_a_parent_that_has_not_used_it():
    (batch,) = DataLoader(TouchesCuda(), num_workers=0)
    assert batch.is_cuda


def _doubles(inbox, outbox):
    tensor = inbox.get()
    tensor.mul_(2)
    outbox.put((str(tensor.device), torch.cuda.device_count()))


def test_a_tensor_on_a_queue_is_shared():
    context = multiprocessing.get_context("spawn")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    worker = context.Process(target=_doubles, args=(inbox, outbox), daemon=True)
    worker.start()
    tensor = torch.ones(3, device="cuda:1")
    inbox.put(tensor)
    worker.join(120)
    assert worker.exitcode == 0
    assert outbox.get() == ("cuda:1", 2)
    assert tensor.tolist() == [2, 2, 2]
