"""Autocast follows CUDA's policy on virtual GPUs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.virtual_gpus(1)


def operations(x):
    """Operations under test on a half-precision matrix x, by name."""
    target = torch.zeros(len(x), dtype=torch.long, device=x.device)
    return {
        "linear": functional.linear(x, x),
        "matmul": x @ x,
        "einsum": torch.einsum("ij,jk->ik", x, x),
        "layer_norm": functional.layer_norm(x, x.shape[-1:]),
        "softmax": x.softmax(-1),
        "log_softmax": x.log_softmax(-1),
        "exp": x.exp(),
        "sum": x.sum(),
        "norm": x.norm(),
        "pow": x.pow(2),
        "cross_entropy": functional.cross_entropy(x, target),
        "mse_loss": functional.mse_loss(x, x),
        "cumsum": x.cumsum(0),
        "mul": x * 2,
        "relu": x.relu(),
        "dropout": functional.dropout(x, 0.5),
    }


# CUDA Op-Specific Behavior, https://pytorch.org/docs/stable/amp.html
FLOAT32 = {
    "layer_norm", "softmax", "log_softmax", "exp", "sum", "norm", "pow", "cross_entropy",
    "mse_loss", "cumsum",
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_needs_range_runs_in_float32_and_the_rest_in_half(dtype):
    x = torch.ones(3, 3, device="cuda", dtype=dtype)
    with torch.autocast("cuda", dtype=dtype):
        results = operations(x)
    wide = {name for name, result in results.items() if result.dtype is torch.float32}
    assert wide == FLOAT32
    assert {result.dtype for result in results.values()} == {torch.float32, dtype}


def test_float32_inputs_are_lowered_where_it_pays():
    layer, x = nn.Linear(2, 2).cuda(), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        assert layer(x).dtype is torch.float16
        assert (x + layer(x)).dtype is torch.float32
        assert torch.addcmul(layer(x), layer(x), x).dtype is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert layer(x).dtype is torch.float32
    assert layer(x).dtype is torch.float32


def test_a_dtype_asked_for_is_kept():
    x = torch.ones(2, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda", dtype=torch.float16):
        assert x.softmax(-1, dtype=torch.float64).dtype is torch.float64


def test_binary_cross_entropy_is_refused_as_on_cuda():
    x = torch.full((2,), 0.5, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        functional.binary_cross_entropy(x, x)


def test_the_cpus_autocast_is_a_matter_of_its_own():
    x = torch.ones(2, 2, dtype=torch.bfloat16)
    with torch.autocast("cuda", dtype=torch.float16):
        assert torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled("cpu")
        assert x.exp().dtype is torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled("cuda")
        assert (x.float() @ x.float()).dtype is torch.bfloat16
        assert x.softmax(-1).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_grad_scaler_skips_a_step_that_overflowed():
    weight = torch.ones(2, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    for factor in (float("inf"), 1.0):
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert weight.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 2.0
