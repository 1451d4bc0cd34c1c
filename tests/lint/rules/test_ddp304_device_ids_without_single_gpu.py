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
    DDP(nn.Linear(1, 1), device_ids=[0])
    """)


@pytest.mark.parametrize(
    ("first", "second", "spread"),
    [
        ("local_rank", "local_rank", False),
        ("local_rank", "'cpu'", False),
        ("local_rank", "unknown()", False),
        ("local_rank", "(local_rank + 1) % 8", True),
    ],
)
def test_a_module_of_two_parts(check: Check, first: str, second: str, spread: bool) -> None:
    marker = "  # DDP304" if spread else ""
    check(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 1).to({first})
            self.b = nn.Linear(1, 1).to({second})

    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    DDP(Net(), device_ids=[local_rank]){marker}
    """)


def test_the_repair_fits_the_fault(check: Check) -> None:
    found = check(START + "DDP(nn.Linear(1, 1), device_ids=[local_rank])  # DDP304\n")
    assert found["DDP304"].repair == "move the module to its GPU before wrapping it"
    assert found["DDP304"].fix is not None
    assert [edit.content for edit in found["DDP304"].fix.edits] == [
        "nn.Linear(1, 1).to(local_rank)"
    ]
    found = check(
        START
        + """
net = nn.Sequential(nn.Linear(1, 1).to(local_rank), nn.Linear(1, 1).to(local_rank + 1))
DDP(net, device_ids=[local_rank])  # DDP304
"""
    )
    assert found["DDP304"].repair == "leave device_ids and output_device out"
    assert found["DDP304"].fix is not None
    assert [edit.content for edit in found["DDP304"].fix.edits] == ["None"]
