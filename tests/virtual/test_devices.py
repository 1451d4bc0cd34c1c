"""Which virtual GPUs a process sees."""

from __future__ import annotations

import pytest

from ddpdoctor.virtual.devices import Machine, parse_memory, uuid, visible_devices

MACHINE = Machine(4)


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        ("", []),
        ("-1", []),
        ("1,-1,2", [1]),
        ("1,9,2", [1]),
        ("1,1", []),
        (" 3 , 1gpu", [3, 1]),
        (uuid(2), [2]),
        (f"{uuid(3)},{uuid(0)}", [3, 0]),
        ("GPU-76697274", []),  # a prefix that several share
        ("nonsense", []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(monkeypatch, mask, seen):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert [device.index for device in visible_devices(MACHINE)] == seen


def test_uuids_are_fixed_and_shaped_like_nvmls():
    assert uuid(10) == "GPU-76697274-7561-6c00-0000-00000000000a"


@pytest.mark.parametrize(
    ("text", "size"), [("80GiB", 80 << 30), ("512M", 512 << 20), ("1.5 gb", 3 << 29), (7, 7)]
)
def test_memory_sizes(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1", 0, "0GiB"])
def test_a_size_that_makes_no_sense_is_refused(text):
    with pytest.raises(ValueError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize("count", ["-1", "1000", "two"])
def test_a_count_that_no_machine_has_is_refused(count):
    with pytest.raises(ValueError, match=r"must be between|invalid literal"):
        Machine.from_environment({"DDPDOCTOR_VIRTUAL_GPUS": count})
