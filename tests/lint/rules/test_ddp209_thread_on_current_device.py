"""DDP209: a thread that relies on the current device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "body",
    [
        "torch.ones(1).cuda()",
        'torch.ones(1, device="cuda")',
        'torch.ones(1).to("cuda")',
        "torch.cuda.synchronize()",
        "torch.cuda.empty_cache()",
    ],
)
def test_a_thread_on_the_current_device(check: Check, body: str) -> None:
    found = check(
        BOUND
        + f"""
def work():
    {body}  # DDP209: error

threading.Thread(target=work).start()
"""
    )
    assert "does not reach here" in found["DDP209"].behaviour


@pytest.mark.parametrize(
    "body",
    [
        "torch.ones(1, device=local_rank)",
        "torch.cuda.set_device(local_rank); torch.ones(1).cuda()",
        "torch.ones(1)",
        "torch.cuda.synchronize(local_rank)",
    ],
)
def test_a_thread_that_names_its_gpu(check: Check, body: str) -> None:
    check(
        BOUND
        + f"""
def work():
    {body}

threading.Thread(target=work).start()
"""
    )


def test_the_threads_of_pytorch_itself(check: Check) -> None:
    check(
        BOUND
        + """
for x in torch.utils.data.DataLoader([], num_workers=2, pin_memory=True):
    x.cuda(non_blocking=True)
"""
    )


def test_a_thread_that_asks_for_its_current_device(check: Check) -> None:
    found = check(
        """
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")

        def prefetch(batches, out):
            device = torch.device("cuda", torch.cuda.current_device())  # DDP209
            for batch in batches:
                out.append(batch.to(device))

        threading.Thread(target=prefetch, args=([torch.ones(1)], [])).start()
        """
    )
    assert [related.message for related in found["DDP209"].related] == ["takes effect here"]


def test_a_thread_that_is_told_the_device_of_its_process(check: Check) -> None:
    check(
        """
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")

        def prefetch(device):
            torch.ones(1).to(device)

        device = torch.device("cuda", torch.cuda.current_device())
        threading.Thread(target=prefetch, args=(device,)).start()
        """
    )


@pytest.mark.parametrize(
    ("backend", "use"),
    [
        ("gloo", "torch.cuda.synchronize()"),
        ("gloo", "torch.ones(1).cuda()"),
        ("nccl", "pass"),
    ],
)
def test_a_thread_of_another_program(check: Check, backend: str, use: str) -> None:
    check(f"""
    dist.init_process_group("{backend}")
    def work():
        {use}

    threading.Thread(target=work).start()
    """)


def test_the_main_thread_has_findings_of_its_own(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    torch.ones(1).cuda()  # DDP101
    torch.cuda.synchronize()  # DDP404
    """)
