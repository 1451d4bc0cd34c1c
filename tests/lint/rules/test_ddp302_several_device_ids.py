"""DDP302: several device_ids for one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1).cuda()
"""


@pytest.mark.parametrize(
    "ids",
    [
        "[0, 1]",
        "list(range(torch.cuda.device_count()))",
        "range(torch.cuda.device_count())",
        "[i for i in range(torch.cuda.device_count())]",
        "list(range(4))",
        "[local_rank, local_rank + 1]",
    ],
)
def test_several_gpus(check: Check, ids: str) -> None:
    found = check(START + f"DDP(model, device_ids={ids})  # DDP302: error\n")
    assert found["DDP302"].repair == "device_ids=[local_rank]"


@pytest.mark.parametrize(
    "wrap",
    [
        "DDP(model)",
        "DDP(model, device_ids=[local_rank])",
        "nn.DataParallel(model, device_ids=[0, 1])",
        "nn.DataParallel(model, device_ids=list(range(torch.cuda.device_count())))",
        "DDP(model, device_ids=unknown())",
        "DDP(model, device_ids=list(range(torch.cuda.device_count()))[unknown() :][:1])",
        "DDP(model, device_ids=[0, 1, 2, 3][local_rank : local_rank + 1])",
        "DDP(model, device_ids=[int(i) for i in sys.argv[1].split(',')])",
    ],
)
def test_one_gpu_or_one_process(check: Check, wrap: str) -> None:
    check(START + wrap)


@pytest.mark.parametrize(
    ("ids", "markers"),
    [
        ("[0, 1] if unknown() else [local_rank]", ""),
        ("[0] if unknown() else [local_rank]", ""),
        ("[0, *unknown()]", ""),
        ("list(unknown())", ""),
        ("None", ""),
        ("[*[], *unknown()]", ""),
        ("[0, 1] if unknown() else [2, 3]", "  # DDP302"),
    ],
)
def test_what_may_be_one_gpu(check: Check, ids: str, markers: str) -> None:
    check(START + f"DDP(model, device_ids={ids}){markers}\n")


def test_several_numbers_on_the_cpu(check: Check) -> None:
    check("""
    dist.init_process_group("gloo")
    DDP(nn.Linear(1, 1), device_ids=[0, 1])
    """)


@pytest.mark.parametrize(
    "ids",
    [
        "args.gpus",
        "list(args.gpus)",
        "[int(gpu) for gpu in args.gpus]",
        "[int(gpu) for gpu in args.names.split(',')]",
        "list(map(int, args.names.split(',')))",
    ],
)
def test_an_option_with_several_by_default(check: Check, ids: str) -> None:
    found = check(OPTIONS + f"DDP(model, device_ids={ids})  # DDP302: warning\n")
    assert ", the default of --" in found["DDP302"].message


@pytest.mark.parametrize("ids", ["args.none", "args.gpus[:1]", "[args.gpus[local_rank]]"])
def test_an_option_that_need_not_name_several(check: Check, ids: str) -> None:
    check(OPTIONS + f"DDP(model, device_ids={ids})\n")


def test_an_option_with_one_by_default(check: Check) -> None:
    found = check(OPTIONS + "DDP(model, device_ids=args.one)  # DDP301: warning\n")
    assert ", the default of --one" in found["DDP301"].message


OPTIONS = """
parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, nargs="+", default=[0, 1, 2, 3])
parser.add_argument("--names", default="0,1")
parser.add_argument("--one", type=int, nargs="+", default=[0])
parser.add_argument("--none", type=int, nargs="+")
args = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1).cuda()
"""
