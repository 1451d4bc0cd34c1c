"""DDP207: a physical GPU number as an index under a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "index",
    [
        'int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])',
        'os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank]',
        '[int(i) for i in os.environ["CUDA_VISIBLE_DEVICES"].split(",")][local_rank]',
        'list(map(int, os.environ["CUDA_VISIBLE_DEVICES"].split(",")))[local_rank]',
    ],
)
def test_an_entry_of_the_mask_as_an_index(check: Check, index: str) -> None:
    found = check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(int({index}))  # DDP207: warning
    """)
    assert "physical GPU number" in found["DDP207"].message


@pytest.mark.parametrize(("mask", "cards"), [("4,5", "[4, 5]"), ("2,5,6,7", "[2, 5, 6, 7]")])
def test_numbers_outside_of_the_programs_own_mask(check: Check, mask: str, cards: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = "{mask}"
    cards = {cards}
    dist.init_process_group("nccl")
    torch.cuda.set_device(cards[int(os.environ["LOCAL_RANK"])])  # DDP207: error
    """)


@pytest.mark.parametrize(
    "index",
    [
        "local_rank",
        "[0, 1][local_rank]",
        'range(len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))[local_rank]',
        "local_rank % torch.cuda.device_count()",
    ],
)
def test_the_place_in_the_mask_is_the_index(check: Check, index: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = "4,5"
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.cuda.set_device({index})
    """)


def test_tools_that_count_physical_gpus(check: Check) -> None:
    check("""
    import pynvml, subprocess
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    card = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])
    pynvml.nvmlDeviceGetHandleByIndex(card)
    subprocess.run(["nvidia-smi", "-i", str(card)])
    """)


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device({})",
        "torch.ones(1).cuda({})",
        "torch.ones(1, device={})",
        'torch.load("x.pt", map_location=torch.device("cuda", {}))',
    ],
)
def test_every_use_as_an_index(check: Check, use: str) -> None:
    card = 'int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[local_rank])'
    program = f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("{{}}")
    {use.format(card)}{{}}
    """
    check(program.format("nccl", "  # DDP207"))
    check(program.format("gloo", ""))


@pytest.mark.parametrize("mask", ['"4,5"', '" 4, 5 "'])
@pytest.mark.parametrize(
    ("cards", "marker"),
    [
        ("[2, 3]", "  # DDP207: error"),  # the first number that is not there
        ("[1, 2]", "  # DDP207: error"),  # it is one rank's
        ("[0, 1]", ""),
    ],
)
def test_the_mask_has_numbers_from_zero(check: Check, mask: str, cards: str, marker: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = {mask}
    dist.init_process_group("nccl")
    torch.cuda.set_device({cards}[int(os.environ["LOCAL_RANK"])]){marker}
    """)


@pytest.mark.parametrize(
    ("masks", "marker"),
    [
        ('"4,5"', "  # DDP103 DDP207: error"),
        ('"4"', "  # DDP103"),  # one GPU for all
        ('"GPU-1,GPU-2"', "  # DDP103"),
        ('"4,GPU-2"', "  # DDP103"),
        ('"4,5" if unknown() else "4,5,6,7"', "  # DDP103"),
    ],
)
def test_a_constant_under_a_mask(check: Check, masks: str, marker: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = {masks}
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda:2"){marker}
    """)


def test_a_number_that_may_be_under_the_mask(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = "4,5"
    dist.init_process_group("nccl")
    torch.ones(1, device=int(os.environ["LOCAL_RANK"]) if unknown() else 4)
    """)


def test_no_index_at_all(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = "4,5"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


@pytest.mark.parametrize(
    ("other", "marker"), [("local_rank", "  # DDP207: warning"), ("0", ""), ("unknown()", "")]
)
def test_an_entry_of_the_mask_if_there_is_one(check: Check, other: str, marker: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    mask = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    torch.ones(1, device=int(mask[local_rank]) if unknown() else {other}){marker}
    """)


@pytest.mark.parametrize(
    ("given", "marker"),
    [
        ("default='4,5,6,7'", "  # DDP207: warning"),
        ("required=True", "  # DDP207: warning"),
        ("default='0,1,2,3'", ""),
    ],
)
def test_a_mask_that_the_user_names(check: Check, given: str, marker: str) -> None:
    check(f"""
    def work(index, options):
        cards = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        dist.init_process_group("nccl", rank=index, world_size=4)
        torch.cuda.set_device(int(cards[index])){marker}

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu-id", {given})
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu_id
    mp.spawn(work, nprocs=len(options.gpu_id.split(",")), args=(options,))
    """)


@pytest.mark.parametrize(
    ("mask", "index", "default", "marker"),
    [
        ('",".join(map(str, args.gpus))', "args.gpus[rank]", "[4, 5, 6, 7]", "  # DDP207: warning"),
        ('",".join(map(str, args.gpus))', "args.gpus[rank]", "[0, 1, 2, 3]", ""),
        ('",".join(map(str, args.gpus))', "rank", "[4, 5, 6, 7]", ""),
        ("args.gpus", 'int(args.gpus.split(",")[rank])', '"4,5"', "  # DDP207: warning"),
        ("args.gpus", 'int(args.gpus.split(",")[rank])', '"0,1"', ""),
        ("args.gpus", "[4, 5][rank]", '"0,1,2"', "  # DDP207: warning"),
        ("args.gpus", "[0, 1][rank]", '"4,5"', ""),
    ],
)
def test_a_list_of_gpus_as_an_option(
    check: Check, mask: str, index: str, default: str, marker: str
) -> None:
    several = ', nargs="+", type=int' if default.startswith("[") else ""
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", default={default}{several})
    args = parser.parse_args()
    rank = int(os.environ["LOCAL_RANK"])
    os.environ["CUDA_VISIBLE_DEVICES"] = {mask}
    torch.cuda.set_device({index}){marker}
    dist.init_process_group("nccl")
    """)
