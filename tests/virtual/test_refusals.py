"""What cannot be simulated is refused by name; what can be done without is said."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.virtual_gpus(1)


def test_torch_compile_runs_eagerly_and_says_so():
    with pytest.warns(UserWarning, match="torch.compile runs eagerly on virtual GPUs"):
        doubled = torch.compile(lambda x: x * 2)
    assert doubled(torch.ones(1, device="cuda")).item() == 2


def test_cuda_graphs():
    with pytest.raises(RuntimeError, match="CUDA graphs cannot be simulated on virtual GPUs"):
        torch.cuda.CUDAGraph()


def test_export():
    with pytest.raises(RuntimeError, match="export cannot be simulated"):
        torch.export.export(torch.nn.Linear(1, 1).cuda(), (torch.ones(1, 1, device="cuda"),))


def test_nvml_figures():
    with pytest.raises(RuntimeError, match="utilization cannot be simulated"):
        torch.cuda.utilization()


def test_cuda_extensions_are_named(tmp_path):
    from torch.utils import cpp_extension

    with pytest.raises(RuntimeError, match="the CUDA extension fast_op cannot run"):
        cpp_extension.load(name="fast_op", sources=[str(tmp_path / "op.cu")])


def test_operations_that_have_no_kernel_but_cudas_are_named():
    x = torch.ones(1, 2, 3, 4, device="cuda", dtype=torch.float16)
    with pytest.raises(
        NotImplementedError, match=r"^the operation aten::_scaled_dot_product_flash"
    ):
        torch.ops.aten._scaled_dot_product_flash_attention(x, x, x)
