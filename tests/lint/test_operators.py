"""Arithmetic and text: what keeps an index a rank, and what makes it one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

RANKS = """
local_rank = int(os.environ["LOCAL_RANK"])
rank = int(os.environ["RANK"])
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "text",
    [
        'f"cuda:{rank}"',
        'f"cuda:{int(rank)}"',
        'f"cuda:{rank:d}"',
        '"cuda:" + str(rank)',
        '"cuda:{}".format(rank)',
        '"cuda:{0}".format(rank)',
        '"cuda:{index}".format(index=rank)',
        '"cuda:%d" % rank',
        '"cuda:%s" % (rank,)',
        '":".join(["cuda", str(rank)])',
        '"{}:{}".format("cuda", rank)',
        '"cuda" f":{rank}"',
        'f"{kind}:{rank}"',
        'kind + ":" + repr(rank)',
        'str(torch.device("cuda", rank))',
        'torch.device(f"cuda:{rank}")',
        'torch.device("cuda", index=rank)',
        "torch.device(rank)",
        "rank",
        "dist.get_rank()",
        "int(str(rank))",
        "rank + 0",
        "rank * 1",
        "0 + rank",
        "max(rank, 0)",
        "max(0, rank)",
        'int(f"cuda:{rank}".split(":")[1])',
        'torch.device("cuda", rank).index',
        "(rank if rank is not None else 0)",
        "list(range(8))[rank]",
        "rank if rank >= 0 else 0",
    ],
)
def test_a_global_rank_is_one_in_any_spelling(check: Check, text: str) -> None:
    check(
        RANKS
        + f"""
kind = "cuda"
torch.ones(1, device={text})  # DDP203
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        '"cuda:2"',
        '"cuda:" + "2"',
        'f"cuda:{2}"',
        '"cuda:{}".format(2)',
        '"cuda:%d" % 2',
        "1 + 1",
        "2 * 1",
        "8 // 4",
        "10 % 4",
        'int("2")',
        "[0, 2][1]",
        '{"a": 2}["a"]',
        '"cuda:0,cuda:2".split(",")[1]',
        '"CUDA:2".lower()',
        '"cuda:X".replace("X", "2")',
        "len([0, 1])",
        "min(2, 3)",
        "+2",
        "0b10",
        "0x2",
        "int(2.5)",
        "True and 2",
        "(1, 2)[-1]",
        "[1, 2, 3][1:2][0]",
    ],
)
def test_a_constant_is_one_in_any_spelling(check: Check, text: str) -> None:
    found = check(
        RANKS
        + f"""
torch.ones(1, device={text})  # DDP103
"""
    )
    assert "it is 2 on every rank" in found["DDP103"].message


@pytest.mark.parametrize(
    "index",
    [
        "rank % torch.cuda.device_count()",
        "dist.get_rank() % torch.cuda.device_count()",
        "rank % 8",
        "rank % gpus",
        "rank - rank // gpus * gpus",
        "rank - gpus * (rank // gpus)",
        "list(range(gpus))[local_rank]",
        "[gpu for gpu in range(gpus) if unknown(gpu)][local_rank]",
        "local_rank",
        "2 * local_rank",
        "local_rank + 4",
        "torch.cuda.device_count() - 1 - local_rank",
        "divmod(rank, gpus)[1]",
        "[3, 2, 1, 0][local_rank]",
        "int(os.environ['MY_CARDS'].split(',')[local_rank])",
        "dist.get_node_local_rank()",
        "rank // 2",
        "rank ^ 1",
    ],
)
def test_what_differs_between_the_ranks_of_a_machine_is_right(check: Check, index: str) -> None:
    check(
        RANKS
        + f"""
gpus = torch.cuda.device_count()
torch.ones(1, device={index})
"""
    )


def test_node_rank_times_gpus_plus_local_rank_is_the_global_rank(check: Check) -> None:
    check("""
    def worker(gpu, args):
        args.rank = args.node_rank * torch.cuda.device_count() + gpu
        dist.init_process_group("nccl", rank=args.rank)
        torch.ones(1, device=gpu)
        torch.ones(1, device=args.rank)  # DDP203

    parser = argparse.ArgumentParser()
    parser.add_argument("--node_rank", type=int, default=0)
    mp.spawn(worker, nprocs=torch.cuda.device_count(), args=(parser.parse_args(),))
    """)


@pytest.mark.parametrize(
    "value",
    [
        '"cpu"',
        'torch.device("cpu")',
        "None",
        "unknown()",
        "sys.argv[1]",
        '"meta"',
        '"xla:1"',
        '"mps"',
        "torch.float16",
        "rank and None",
        "10 ** 10 ** 10",
        '"cuda" * 10 ** 9',
        "1 / 0",
        '"%q" % 1',
        '"{".format(1)',
        "[][0]",
        "{}[0]",
        '"cuda:" + 2',
        "int('x')",
    ],
)
def test_what_is_no_index_is_silent(check: Check, value: str) -> None:
    check(
        RANKS
        + f"""
torch.ones(1, device={value})
"""
    )


@pytest.mark.parametrize(
    ("operator", "result"), [("+=", 3), ("-=", 1), ("*=", 2), ("//=", 2), ("%=", 0), ("|=", 3)]
)
def test_augmented_assignments(check: Check, operator: str, result: int) -> None:
    found = check(
        RANKS
        + f"""
index = 2  # DDP103
index {operator} 1
torch.ones(1, device=index)
"""
    )
    assert f"it is {result} on every rank" in found["DDP103"].message


def test_a_text_of_many_optional_parts_keeps_those_that_are_sure(check: Check) -> None:
    """A part is there or not in each of twenty places: a million texts, of which none is made."""
    parts = "".join(f"parts.append('x' if os.getenv('PART{n}') else '')\n" for n in range(20))
    check(
        "parts = ['cpu']\n"
        + parts
        + """
dist.init_process_group("nccl")
torch.cuda.set_device("cuda:" + os.environ["RANK"])  # DDP203
torch.zeros(1, device=":".join(parts))
torch.zeros(1, device="cuda:0" + "".join(parts[1:]))
"""
    )
