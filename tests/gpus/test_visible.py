"""CUDA_VISIBLE_DEVICES in all its forms against NVML's list of GPUs."""

from __future__ import annotations

import pytest

from ddpdoctor.gpus import Gpu, MigInstance
from ddpdoctor.gpus.visible import visible_devices

A, B, C = (
    "GPU-aaaa0000-0000-0000-0000-000000000001",
    "GPU-aaaa1111-0000-0000-0000-000000000002",
    "GPU-bbbb0000-0000-0000-0000-000000000003",
)
FIRST, SECOND = (
    "MIG-11111111-0000-0000-0000-000000000001",
    "MIG-22222222-0000-0000-0000-000000000002",
)


def gpu(index, uuid, name="NVIDIA A100", mig=None):
    return Gpu(index, uuid, name, 2**30, 0, (), None, mig)


THREE = (gpu(0, A), gpu(1, B), gpu(2, C))
# The first GPU is cut in two instances.
WITH_MIG = (
    gpu(0, FIRST, "NVIDIA A100 MIG 3g.20gb", MigInstance(A, 1, 0)),
    gpu(1, SECOND, "NVIDIA A100 MIG 3g.20gb", MigInstance(A, 2, 0)),
    gpu(2, B),
)


@pytest.mark.parametrize(
    ("mask", "uuids"),
    [
        (None, (A, B, C)),
        ("", ()),
        ("-1", ()),
        ("0", (A,)),
        ("2,0", (C, A)),
        (" 1 , 2 ", (B, C)),
        ("0,2,-1,1", (A, C)),
        ("0,3,1", (A,)),
        ("1gpu2,2ampere", (B, C)),
        ("+1", (B,)),
        ("1,1", ()),
        ("0,1,0", ()),
        ("NoDevFiles", ()),
        (C, (C,)),
        (f"{C},{A}", (C, A)),
        ("GPU-bbbb,GPU-aaaa1", (C, B)),
        ("GPU-aaaa", ()),
        ("GPU-bbbb,GPU-ffff,GPU-aaaa0", (C,)),
        (f"{C},GPU-bbbb", ()),
        ("MIG-11111111-0000-0000-0000-000000000001", ()),
    ],
)
def test_a_mask_on_whole_gpus(mask, uuids):
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert visible_devices(environ, THREE).uuids == uuids


@pytest.mark.parametrize(
    ("mask", "uuids"),
    [
        (None, (B,)),
        (SECOND, (SECOND,)),
        (f"MIG-{A}/2/0", (SECOND,)),
        (f"MIG-{A}/7/0", ()),
        ("MIG-2222", ()),
        ("0", (FIRST,)),
        ("1", (B,)),
        ("GPU-aaaa0", (FIRST,)),
        (f"{FIRST},{SECOND}", (FIRST, SECOND)),
    ],
)
def test_a_mask_with_mig_instances(mask, uuids):
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    assert visible_devices(environ, WITH_MIG).uuids == uuids


def test_without_a_mask_and_whole_gpus_cuda_shows_one_instance():
    assert visible_devices({}, WITH_MIG[:2]).uuids == (FIRST,)


MIXED = (gpu(0, A, "NVIDIA T400"), gpu(1, B, "NVIDIA H100"))


@pytest.mark.parametrize("mask", [{}, {"CUDA_VISIBLE_DEVICES": "1"}])
def test_the_order_of_unlike_gpus_is_said_to_be_a_guess(mask):
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in visible_devices(mask, MIXED).note


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED),
        ({"CUDA_VISIBLE_DEVICES": B}, MIXED),
        ({}, THREE),
        ({}, (*THREE, gpu(3, "unknown-3", ""))),  # a GPU that is lost
    ],
)
def test_where_the_order_is_sure_there_is_no_note(environ, gpus):
    assert visible_devices(environ, gpus).note is None
