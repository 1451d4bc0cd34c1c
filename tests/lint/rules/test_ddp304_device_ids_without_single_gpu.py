"""DDP304: device_ids for a module on the CPU, or on several GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

NET = """
class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
"""
START = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


def test_a_module_on_the_cpu(check: Check) -> None:
    found = check(START + "DDP(nn.Linear(1, 1), device_ids=[local_rank])  # DDP304: error\n")
    assert "still on the CPU" in found["DDP304"].message


def test_spread_with_device_ids(check: Check) -> None:
    found = check(
        """
    class Net(nn.Module):
        def __init__(self, first, second):
            super().__init__()
            self.a = nn.Linear(1, 1).to(first)
            self.b = nn.Linear(1, 1).to(second)

    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    net = Net(local_rank, 1)  # DDP103
    DDP(net, device_ids=[local_rank])  # DDP304
    DDP(net)
    """
    )
    assert "spread over several GPUs" in found["DDP304"].message


@pytest.mark.parametrize(
    "wrap",
    [
        "DDP(nn.Linear(1, 1))",
        "DDP(nn.Linear(1, 1), device_ids=None)",
        "DDP(nn.Linear(1, 1).cuda(), device_ids=[local_rank])",
        "DDP(unknown(), device_ids=[local_rank])",
        "DDP(unknown(nn.Linear(1, 1)), device_ids=[local_rank])",
        "DDP(Net(nn.Linear(1, 1).cuda()), device_ids=[local_rank])",
        "DDP(Net(unknown().cuda()), device_ids=[local_rank])",
        "DDP(Net(unknown()), device_ids=[local_rank])",
    ],
)
def test_what_device_ids_may_be(check: Check, wrap: str) -> None:
    check(NET + START + wrap)


def test_on_the_cpu_with_gloo(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    DDP(nn.Linear(1, 1))
    """)
