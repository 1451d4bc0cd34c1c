"""DDP204: a local rank argument that torchrun never sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

OPTION = """
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default={default}){marker}
args = parser.parse_args()
"""


@pytest.mark.parametrize("default", ["0", "-1", "None"])
@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(args.local_rank)",
        "torch.ones(1, device=args.local_rank)",
        'torch.ones(1, device=f"cuda:{args.local_rank}")',
        "DDP(nn.Linear(1, 1).to(args.local_rank), device_ids=[args.local_rank])",
    ],
)
def test_the_argument_decides(check: Check, default: str, use: str) -> None:
    found = check(
        OPTION.format(default=default, marker="  # DDP204: warning")
        + f"""
dist.init_process_group("nccl")
{use}
"""
    )
    assert "torchrun never sets" in found["DDP204"].message
    assert [r.message for r in found["DDP204"].related] == ["used as the GPU index here"]


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        "args.local_rank = int(os.environ['LOCAL_RANK']); torch.cuda.set_device(args.local_rank)",
        "print(args.local_rank); torch.cuda.set_device(dist.get_node_local_rank())",
        "if 'LOCAL_RANK' in os.environ: args.local_rank = int(os.environ['LOCAL_RANK'])\n"
        "torch.cuda.set_device(args.local_rank)",
        "if args.local_rank == -1: args.local_rank = int(os.environ['LOCAL_RANK'])\n"
        "torch.cuda.set_device(args.local_rank)",
        "if args.local_rank < 0: args.local_rank = int(os.environ['LOCAL_RANK'])\n"
        "torch.cuda.set_device(args.local_rank)",
        "os.environ.setdefault('LOCAL_RANK', str(args.local_rank))\n"
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
    ],
)
def test_declared_and_not_relied_on(check: Check, use: str) -> None:
    check(OPTION.format(default=-1, marker="") + f'dist.init_process_group("nccl")\n{use}\n')


def test_the_default_is_read_from_the_environment(check: Check) -> None:
    check(
        OPTION.format(default='int(os.environ.get("LOCAL_RANK", 0))', marker="")
        + """
dist.init_process_group("nccl")
torch.cuda.set_device(args.local_rank)
torch.ones(1).cuda()
"""
    )


def test_a_guard_on_the_argument_is_a_rank_guard(check: Check) -> None:
    check(
        OPTION.format(default=0, marker="")
        + """
dist.init_process_group("nccl")
if args.local_rank == 0:
    torch.ones(1, device="cuda:0")
"""
    )


def test_only_one_process_when_it_is_not_given(check: Check) -> None:
    check(
        OPTION.format(default=-1, marker="  # DDP204")
        + """
if args.local_rank == -1:
    device = torch.device("cuda")
else:
    torch.cuda.set_device(args.local_rank)
    device = torch.device("cuda", args.local_rank)
    dist.init_process_group("nccl")
torch.ones(1).to(device)
"""
    )


@pytest.mark.parametrize(
    "setup",
    [
        "pass",
        'dist.init_process_group("gloo")',
        'os.environ["CUDA_VISIBLE_DEVICES"] = str(args.local_rank); dist.init_process_group()',
    ],
)
def test_without_a_job_on_gpus_or_where_a_mask_is_set(check: Check, setup: str) -> None:
    check(OPTION.format(default=0, marker="") + f"{setup}\ntorch.cuda.set_device(args.local_rank)")


LAUNCH = "python -m torch.distributed.launch --nproc_per_node 4 train.py\n"


@pytest.mark.parametrize(
    ("lines", "marker"),
    [
        (LAUNCH, ""),
        ("deepspeed train.py\n", ""),
        (LAUNCH.replace("train.py", "--use_env train.py"), "  # DDP204: warning"),
        ("deepspeed --no_local_rank train.py\n", "  # DDP204: warning"),
        ("python -m accelerate.commands.launch train.py\n", "  # DDP204: warning"),
        ("torchrun --nproc_per_node 4 train.py\n", "  # DDP204: warning"),
        (LAUNCH + "torchrun --nproc_per_node 4 train.py\n", "  # DDP204: warning"),
        ("python train.py\n", "  # DDP204: warning"),
    ],
)
def test_a_command_line_beside_the_program_tells_whether_it_is_passed(
    check: Check, lines: str, marker: str
) -> None:
    check(
        OPTION.format(default=0, marker=marker)
        + """
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl")
""",
        {"run.sh": lines},
    )
