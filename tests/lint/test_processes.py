"""Processes that a program starts itself: which of them are ranks, and what each one knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "spawn",
    [
        "mp.spawn(worker, args=(2,), nprocs=torch.cuda.device_count())",
        "mp.spawn(worker, (2,), 4)",
        "mp.spawn(fn=worker, args=(2,), nprocs=n, join=True)",
        "torch.multiprocessing.spawn(worker, args=[2], nprocs=n)",
        "mp.start_processes(worker, args=(2,), nprocs=n, start_method='spawn')",
        "mp.spawn(functools.partial(worker, gpu=2), nprocs=n)",
        "mp.spawn(lambda i: worker(i, 2), nprocs=n)",
    ],
)
def test_spawn_passes_the_local_rank_first(check: Check, spawn: str) -> None:
    check(f"""
    def worker(index, gpu):
        dist.init_process_group("nccl", rank=index, world_size=4)
        torch.cuda.set_device(index)
        torch.ones(1).cuda()
        torch.ones(1, device=gpu)

    if __name__ == "__main__":
        n = torch.cuda.device_count()
        {spawn}  # DDP103
    """)


def test_the_spawned_index_is_no_constant(check: Check) -> None:
    check("""
    def worker(gpu, args):
        args.gpu = gpu
        if args.gpu is not None:
            torch.cuda.set_device(args.gpu)
        dist.init_process_group("nccl")
        torch.ones(1).cuda(args.gpu)

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpu", default=None, type=int)
        parser.add_argument("--multiprocessing", action="store_true")
        args = parser.parse_args()
        if args.multiprocessing:
            mp.spawn(worker, nprocs=4, args=(args,))
        else:
            worker(args.gpu, args)

    main()
    """)


def test_a_spawned_process_is_not_bound_by_its_parent(check: Check) -> None:
    check("""
    def worker(index):
        dist.init_process_group("nccl")  # DDP201
        torch.ones(1).cuda()  # DDP101

    torch.cuda.set_device(0)
    mp.spawn(worker, nprocs=4)
    """)


def test_one_worker_does_not_bind_another(check: Check) -> None:
    check("""
    def train(index):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl")
        torch.ones(1).cuda()

    def evaluate(index):
        dist.init_process_group("nccl")  # DDP201
        torch.ones(1).cuda()  # DDP101

    mp.spawn(train, nprocs=4)
    mp.spawn(evaluate, nprocs=4)
    """)


def test_a_single_spawned_process_is_no_job_of_several(check: Check) -> None:
    check("""
    def worker(index):
        dist.init_process_group("nccl", rank=0, world_size=1)
        torch.ones(1, device="cuda:0")

    mp.spawn(worker, nprocs=1)
    """)


@pytest.mark.parametrize(
    "start",
    [
        "mp.Process(target=worker, args=(i,)).start()",
        "mp.Process(target=worker, kwargs={'index': i}).start()",
        "p = mp.get_context('spawn').Process(target=worker, args=[i]); p.start()",
        "p = multiprocessing.Process(None, worker, args=(i,)); p.start()",
    ],
)
def test_processes_in_a_loop_are_ranks(check: Check, start: str) -> None:
    check(f"""
    import multiprocessing

    def worker(index):
        dist.init_process_group("nccl", rank=index, world_size=4)
        torch.ones(1, device=index)
        torch.ones(1, device="cuda:0")  # DDP103

    for i in range(4):
        {start}
    """)


def test_a_group_of_its_own_is_what_makes_a_process_a_rank(check: Check) -> None:
    check("""
    def log(queue):
        torch.ones(1).cuda()

    def main():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        mp.Process(target=log, args=(None,)).start()
        torch.ones(1).cuda()

    main()
    """)


def test_the_parent_of_the_ranks_is_none(check: Check) -> None:
    check("""
    def worker(index):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl")

    n = torch.cuda.device_count()
    if torch.cuda.is_available():
        mp.spawn(worker, nprocs=n)
    """)


def test_a_worker_gets_the_objects_that_its_parent_made(check: Check) -> None:
    check("""
    def worker(index, config, model):
        torch.cuda.set_device(index)
        dist.init_process_group("nccl")
        model.to(config["device"])

    config = {"device": "cuda:1"}  # DDP103
    mp.spawn(worker, nprocs=2, args=(config, nn.Linear(1, 1)))
    """)


def test_what_a_worker_writes_stays_in_it(check: Check) -> None:
    check("""
    STATE = {"gpu": 1}

    def first(index):
        STATE["gpu"] = index

    def second(index):
        dist.init_process_group("nccl")
        torch.ones(1, device=STATE["gpu"])

    STATE["gpu"] = 2  # DDP103
    mp.spawn(first, nprocs=2)
    mp.spawn(second, nprocs=2)
    """)


def test_a_worker_may_be_a_method(check: Check) -> None:
    check("""
    class Trainer:
        def run(self, index, gpu):
            dist.init_process_group("nccl")
            torch.ones(1, device=gpu)

    mp.spawn(Trainer().run, nprocs=2, args=(2,))  # DDP103
    """)


def test_an_elastic_launch_starts_ranks_with_torchruns_variables(check: Check) -> None:
    check("""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    def worker(gpu):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        torch.ones(1).cuda()
        torch.ones(1, device=gpu)

    elastic_launch(LaunchConfig(1, 1, 4), worker)(2)  # DDP103
    """)


def test_a_forked_child_is_a_process(check: Check) -> None:
    check("""
    def worker(index):
        dist.init_process_group("nccl")  # DDP201
        torch.ones(1).cuda()  # DDP101

    context = mp.get_context("fork")
    for i in range(2):
        context.Process(target=worker, args=(i,)).start()
    """)


@pytest.mark.parametrize(
    "loop",
    [
        "for rank in range(4)",
        "for rank in range(torch.cuda.device_count())",
        "for rank in range(min(4, torch.cuda.device_count()))",
        "for rank in range(int(sys.argv[1]))",
        "for rank, gpu in enumerate(sys.argv[1].split(','))",
    ],
)
def test_a_loop_that_starts_processes_counts_local_ranks(check: Check, loop: str) -> None:
    check(f"""
    def main(rank):
        dist.init_process_group("nccl", rank=rank, world_size=4)
        torch.cuda.set_device(rank)
        DDP(nn.Linear(1, 1).cuda(), device_ids=[rank])
        torch.ones(1, device="cuda:0")  # DDP103

    {loop}:
        mp.Process(target=main, args=(rank,)).start()
    """)


@pytest.mark.parametrize(
    "opened",
    [
        'dist.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)',
        'os.environ["WORLD_SIZE"] = "1"; dist.init_process_group("nccl")',
        'os.environ.update(RANK="0", WORLD_SIZE="1"); dist.init_process_group("nccl")',
        'os.environ["WORLD_SIZE"] = str(1); accelerate.Accelerator()',
    ],
)
def test_a_group_of_one_process_is_no_job(check: Check, opened: str) -> None:
    check(f"""
    import accelerate
    {opened}
    torch.cuda.set_device(0)
    DDP(nn.Linear(1, 1).cuda())
    """)


def test_a_group_that_may_be_of_one_process_is_a_job(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=1)
    size = parser.parse_args().world_size
    dist.init_process_group("nccl", world_size=size if len(sys.argv) > 2 else 1)
    torch.cuda.set_device(0)  # DDP103
    """)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("args=(0, 2)", "args=(1, 2)"),
        ("kwargs={'gpu': 0, 'size': 2}", "kwargs={'gpu': 1, 'size': 2}"),
        ("args=(one, 2)", "args=(other, 2)"),
    ],
)
def test_processes_that_are_each_given_a_number_of_their_own(
    check: Check, first: str, second: str
) -> None:
    check(f"""
    def train(gpu, size):
        torch.cuda.set_device(gpu)
        dist.init_process_group("nccl", "tcp://localhost:1234", rank=gpu, world_size=size)
        model = DDP(nn.Linear(1, 1).to(gpu), device_ids=[gpu])

    if __name__ == "__main__":
        one, other = 0, 1
        processes = [mp.Process(target=train, {first}), mp.Process(target=train, {second})]
        for process in processes:
            process.start()
    """)


def test_processes_that_are_all_given_the_same_number(check: Check) -> None:
    check("""
    def train(gpu, rank):
        torch.cuda.set_device(gpu)
        dist.init_process_group("nccl", "tcp://localhost:1234", rank=rank, world_size=2)

    if __name__ == "__main__":
        mp.Process(target=train, args=(0, 0)).start()  # DDP103
        mp.Process(target=train, args=(0, 1)).start()  # DDP103
    """)


SPAWN_OR_NOT = """
def worker(rank):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=4)
    nn.Linear(2, 2).to("cuda:0")  # DDP103

parser = argparse.ArgumentParser()
parser.add_argument("--spawn", action="store_true")
options = parser.parse_args()
if options.spawn:
    nn.Linear(2, 2).cuda()  # DDP210
    mp.spawn(worker, nprocs=4)
else:
"""


def test_a_program_that_spawns_its_ranks_or_is_one_itself(check):
    check(
        SPAWN_OR_NOT
        + """
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    nn.Linear(2, 2).to("cuda:0")  # DDP103
"""
    )


def test_without_a_local_rank_it_is_the_only_one_of_its_machine(check):
    check(
        SPAWN_OR_NOT
        + """
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]))
    nn.Linear(2, 2).to("cuda:0")
"""
    )


def test_what_the_parent_ran_itself_is_run_in_the_ranks_all_the_same(check: Check) -> None:
    rounds = "\n".join("    x = x + 1" for _ in range(200))
    check(
        f"""
def place(rank, x):
{rounds}
    torch.ones(1).to("cuda:1")  # DDP103

def work(rank):
    if rank is not None:
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", rank=rank, world_size=2)
    for number in sys.argv:
        place(rank, number)

if len(sys.argv) > 2:
    for _ in range(12):
        work(None)
        work(None)
else:
    mp.spawn(work, nprocs=2)
"""
    )
