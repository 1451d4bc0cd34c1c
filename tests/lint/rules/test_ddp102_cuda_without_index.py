"""DDP102: "cuda" without an index in a process that chose no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(1).to("cuda")',
        'torch.ones(1).to(device="cuda")',
        'torch.ones(1).to(torch.device("cuda"))',
        'torch.ones(1).cuda("cuda")',
        'torch.ones(1, device="cuda")',
        'nn.Linear(1, 1).to("cuda")',
        'torch.set_default_device("cuda")',
        'torch.set_default_tensor_type("torch.cuda.FloatTensor")',
        "torch.set_default_tensor_type(torch.cuda.FloatTensor)",
        'torch.load("x.pt", map_location="cuda")',
        "torch.cuda.FloatTensor(3)",
        "torch.ones(1).type(torch.cuda.FloatTensor)",
        'torch.ones(1).type("torch.cuda.LongTensor")',
    ],
)
def test_an_unindexed_device_in_an_unbound_process(check: Check, use: str) -> None:
    found = check(f"""
    dist.init_process_group("nccl")  # DDP201
    {use}  # DDP102: error
    """)
    assert "cuda:0" in found["DDP102"].behaviour


def test_the_use_is_reported_and_not_the_device_object(check: Check) -> None:
    check("""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).to(device)  # DDP102
    """)


@pytest.mark.parametrize(
    "cast",
    ["torch.float32", "torch.cuda.FloatTensor", "torch.FloatTensor", "unknown()", "y.type()"],
)
def test_a_tensor_on_a_gpu_keeps_it_when_its_type_changes(check: Check, cast: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    y = torch.ones(1).to(int(os.environ["LOCAL_RANK"]))
    y.type({cast})
    """)


@pytest.mark.parametrize("like", ["y", "model(y)"])
def test_the_type_of_a_gpu_tensor_moves_what_is_on_the_cpu(check: Check, like: str) -> None:
    check(f"""
    dist.init_process_group("nccl")  # DDP201
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = nn.Linear(1, 1).to(device)
    y = torch.ones(1, device=device)
    torch.ones(1).type(y.cpu().type())
    torch.ones(1).fill_(1.0).type({like}.type())  # DDP102
    """)


def test_a_device_object_made_early_and_used_after_binding(check: Check) -> None:
    check("""
    device = torch.device("cuda")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).to(device)
    torch.ones(1, device="cuda")
    """)


def test_an_option_whose_default_is_cuda(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).to(args.device)  # DDP102
    """)


def test_the_option_is_overwritten_in_the_distributed_branch(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    if args.distributed:
        args.device = f"cuda:{os.environ['LOCAL_RANK']}"
        dist.init_process_group("nccl")
    torch.ones(1).to(args.device)
    """)


def test_a_dtype_is_no_device(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.ones(1).to(torch.half)
    torch.ones(1).to(torch.channels_last)
    torch.autocast("cuda")
    torch.ones(1).to("cpu")
    """)


def test_what_other_rules_speak_of(check: Check) -> None:
    check("""
    def work():
        torch.ones(1, device="cuda")  # DDP209

    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    torch.ones(1).cuda(None)  # DDP101
    torch.ones(1).cuda("cuda")  # DDP102
    threading.Thread(target=work).start()
    """)


def test_a_device_that_may_have_the_ranks_index(check: Check) -> None:
    check("""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda" if unknown() else local_rank)
    """)
