"""Threads share memory and the process group, but each has a current device of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

SETUP = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
"""


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=load).start()",
        "threading.Thread(target=load, args=(), daemon=True).start()",
        "t = threading.Thread(None, load); t.start()",
        "ThreadPoolExecutor().submit(load)",
        "ThreadPoolExecutor(4).submit(load).result()",
        "list(ThreadPoolExecutor().map(lambda i: load(), range(4)))",
        "Loader().start()",
    ],
)
def test_a_thread_is_not_bound_by_set_device(check: Check, start: str) -> None:
    check(
        SETUP
        + f"""
def load():
    torch.ones(1).cuda()  # DDP209

class Loader(threading.Thread):
    def run(self):
        load()

{start}
torch.ones(1).cuda()
"""
    )


def test_an_executor_in_a_with_block(check: Check) -> None:
    check(
        SETUP
        + """
def load(x):
    return x.to("cuda")  # DDP209

with ThreadPoolExecutor(max_workers=2) as pool:
    results = list(pool.map(load, [torch.ones(1)]))
"""
    )


@pytest.mark.parametrize(
    "start",
    [
        "ThreadPoolExecutor(initializer=bind, initargs=(local_rank,)).submit(load)",
        "ThreadPoolExecutor(4, '', torch.cuda.set_device, (local_rank,)).submit(load)",
        "ThreadPool(4, torch.cuda.set_device, (local_rank,)).map(load, range(4))",
    ],
)
def test_an_initializer_binds_the_threads_of_an_executor(check: Check, start: str) -> None:
    check(
        SETUP
        + f"""
from multiprocessing.pool import ThreadPool

bind = torch.cuda.set_device

def load(number=0):
    torch.ones(1).cuda()

{start}
"""
    )


def test_a_thread_that_binds_itself_or_names_an_index(check: Check) -> None:
    check(
        SETUP
        + """
def bound():
    torch.cuda.set_device(local_rank)
    torch.ones(1).cuda()

def indexed(device):
    torch.ones(1, device=device)

threading.Thread(target=bound).start()
threading.Thread(target=indexed, args=(local_rank,)).start()
threading.Thread(target=indexed, kwargs={"device": torch.device("cuda", local_rank)}).start()
threading.Thread(target=indexed, kwargs={"device": torch.cuda.current_device()}).start()
"""
    )


def test_what_a_thread_binds_does_not_bind_the_process(check: Check) -> None:
    check("""
    def bind():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    dist.init_process_group("nccl")  # DDP201
    threading.Thread(target=bind).start()
    torch.ones(1).cuda()  # DDP101
    """)


def test_a_constant_index_in_a_thread(check: Check) -> None:
    check(
        SETUP
        + """
threading.Thread(target=torch.ones, args=(1,), kwargs={"device": "cuda:2"}).start()  # DDP103
"""
    )


def test_a_future_gives_what_its_function_returns(check: Check) -> None:
    check(
        SETUP
        + """
def pick():
    return 2  # DDP103

torch.ones(1, device=ThreadPoolExecutor().submit(pick).result())
"""
    )
