"""Tensors that lie elsewhere without an error: found where DDP and the optimizer hold them.

The meta device stands for the other GPU: only the comparison of devices is looked at.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from ddpdoctor.probe.agent.silent import left_buffers, moved_inputs, strange_state


def test_a_buffer_that_did_not_move_with_its_module_is_found() -> None:
    norm = nn.BatchNorm1d(3)
    assert list(left_buffers(SimpleNamespace(module=norm))) == []
    norm.running_mean = torch.zeros(3, device="meta")
    ((operation, tensors, message),) = left_buffers(SimpleNamespace(module=norm))
    assert operation == "buffer"
    assert [(one["name"], one["device"]) for one in tensors] == [
        ("running_mean", "meta"),
        ("weight", "cpu"),
    ]
    assert message.startswith("buffer running_mean is on meta, the parameters are on cpu")


def test_a_model_split_over_devices_has_no_wrong_place_for_a_buffer() -> None:
    norm = nn.BatchNorm1d(3)
    norm.weight = nn.Parameter(torch.zeros(3, device="meta"))
    assert list(left_buffers(SimpleNamespace(module=norm))) == []


def test_optimizer_state_away_from_its_parameter_is_found_and_scalars_are_not() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones(2)
    optimizer.step()
    optimizer.state[parameter]["step"] = torch.tensor(1.0, device="meta")
    assert list(strange_state(optimizer)) == []
    optimizer.state[parameter]["exp_avg"] = torch.ones(2, device="meta")
    ((operation, _, message),) = strange_state(optimizer)
    assert operation == "optimizer state"
    assert message == "optimizer state exp_avg is on meta, its parameter is on cpu"


def test_inputs_on_the_cpu_are_meant_to_be_moved() -> None:
    wrapper = SimpleNamespace(device_ids=[1])
    assert list(moved_inputs(wrapper, (torch.ones(1), 3), {"mask": torch.ones(1)})) == []
    assert list(moved_inputs(SimpleNamespace(device_ids=None), (torch.ones(1),), {})) == []
