"""DDP208: each rank sees one GPU only, and is indexed all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

ISOLATED = """
local_rank = int(os.environ["LOCAL_RANK"])
os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(local_rank)",
        "torch.ones(1, device=local_rank)",
        'torch.ones(1).to(f"cuda:{local_rank}")',
        "DDP(nn.Linear(1, 1).cuda(), device_ids=[local_rank])",
        "torch.ones(1, device=dist.get_rank())",
    ],
)
def test_isolated_and_indexed(check: Check, use: str) -> None:
    found = check(ISOLATED + f"{use}  # DDP208: error\n")
    assert "sees its own GPU only" in found["DDP208"].message


@pytest.mark.parametrize(
    "use",
    [
        "torch.cuda.set_device(0)",
        "torch.ones(1).cuda()",
        "torch.ones(1, device='cuda:0')",
        "DDP(nn.Linear(1, 1).cuda(), device_ids=[0])",
        "torch.cuda.set_device(local_rank % torch.cuda.device_count())",
    ],
)
def test_isolated_and_index_zero(check: Check, use: str) -> None:
    check(ISOLATED + use)


def test_a_mask_for_all_is_no_isolation(check: Check) -> None:
    check("""
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    """)


def test_loaded_to_the_local_rank(check: Check) -> None:
    check(ISOLATED + 'torch.load("x.pt", map_location=f"cuda:{local_rank}")  # DDP208\n')


@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(1, device=local_rank if unknown() else 0)",
        "torch.ones(1, device=int(os.environ['WORLD_SIZE']))",
        "DDP(nn.Linear(1, 1).cuda())",
        "DDP(nn.Linear(1, 1).cuda(), device_ids=unknown())",
    ],
)
def test_what_need_not_be_the_local_rank(check: Check, use: str) -> None:
    check(ISOLATED + use)


def test_without_a_group_of_gpus(check: Check) -> None:
    check(ISOLATED.replace("nccl", "gloo") + "torch.ones(1, device=local_rank)\n")


def test_a_number_of_a_list_of_all_gpus(check: Check) -> None:
    check("""
    def work(rank, gpus):
        os.environ["CUDA_VISIBLE_DEVICES"] = str(gpus[rank])
        dist.init_process_group("nccl", rank=rank)
        torch.cuda.set_device(gpus[rank])  # DDP208
        torch.ones(1).cuda()

    if __name__ == "__main__":
        gpus = list(range(torch.cuda.device_count()))
        mp.spawn(work, (gpus,), nprocs=len(gpus))
    """)


@pytest.mark.parametrize(
    "mask", ['f"{local_rank},7"', 'f"{local_rank},{local_rank + 1}"', '"0" + str(local_rank)']
)
def test_a_mask_of_more_than_the_rank(check: Check, mask: str) -> None:
    check(f"""
    local_rank = int(os.environ["LOCAL_RANK"])
    os.environ["CUDA_VISIBLE_DEVICES"] = {mask}
    dist.init_process_group("nccl")
    torch.cuda.set_device(local_rank)
    """)


@pytest.mark.parametrize("use", ["torch.cuda.set_device(rank)", "torch.ones(1, device=rank)"])
def test_one_gpu_for_all_ranks(check: Check, use: str) -> None:
    found = check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = "2"
    rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    {use}  # DDP208: warning
    """)
    assert "all ranks see one GPU only" in found["DDP208"].message
    assert found["DDP208"].related[0].location.row != found["DDP208"].location.row


@pytest.mark.parametrize("mask", ["-1", "", "2,3", "GPU-8932f937"])
def test_masks_that_do_not_name_one_gpu_for_all(check: Check, mask: str) -> None:
    check(f"""
    os.environ["CUDA_VISIBLE_DEVICES"] = "{mask}"
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    """)


def test_an_option_that_names_one_gpu_by_default(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="2")
    os.environ["CUDA_VISIBLE_DEVICES"] = parser.parse_args().gpu
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    """)
