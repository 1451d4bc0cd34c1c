"""Saving and loading keep devices, and map them."""

from __future__ import annotations

import io

import pytest
import torch

pytestmark = pytest.mark.virtual_gpus(2)


@pytest.mark.parametrize("old_format", [False, True])
@pytest.mark.parametrize(
    ("location", "device"),
    [
        (None, "cuda:1"),
        ("cpu", "cpu"),
        ("cuda:0", "cuda:0"),
        ("cuda", "cuda:0"),
        (torch.device("cuda", 0), "cuda:0"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        ({"cuda:0": "cpu"}, "cuda:1"),
        (lambda storage, tag: storage, "cpu"),
        (lambda storage, tag: storage.cuda(0), "cuda:0"),
        (lambda storage, tag: None, "cuda:1"),
    ],
)
def test_map_location_in_every_form(location, device, old_format):
    saved = io.BytesIO()
    content = {"on": torch.arange(3.0, device="cuda:1"), "off": torch.ones(2)}
    torch.save(content, saved, _use_new_zipfile_serialization=not old_format)
    saved.seek(0)
    loaded = torch.load(saved, map_location=location, weights_only=True)
    assert str(loaded["on"].device) == device
    assert loaded["on"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([loaded["off"].cpu(), torch.ones(1, device="cuda:0")])


def test_a_device_that_is_not_there():
    saved = io.BytesIO()
    torch.save(torch.ones(1), saved)
    saved.seek(0)
    assert torch.load(saved).device.type == "cpu"
    saved.seek(0)
    with pytest.raises(RuntimeError, match=r"device 5 but torch.cuda.device_count\(\) is 2"):
        torch.load(saved, map_location="cuda:5")


def test_views_share_their_storage_after_loading():
    whole = torch.arange(4.0, device="cuda:1")
    saved = io.BytesIO()
    torch.save([whole, whole[1:]], saved)
    saved.seek(0)
    first, second = torch.load(saved)
    first.fill_(7)
    assert second.tolist() == [7, 7, 7]
    assert second.device.index == 1


def test_storages_know_their_device():
    storage = torch.ones(2, device="cuda:1").untyped_storage()
    assert storage.device == torch.device("cuda:1")
    assert storage.is_cuda
    assert storage.cpu().device.type == "cpu"
    assert storage.clone().device.index == 1
    assert torch.UntypedStorage(4, device="cuda:0").device.index == 0
