"""Programs that ask whether a machine has one GPU."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Check

PARSER = """\
parser = argparse.ArgumentParser()
parser.add_argument("--ngpu", type=int, default={default})
parser.add_argument("--local-rank", type=int, default=None)
args = parser.parse_args()
"""


@pytest.mark.parametrize("question", ["args.ngpu == 1", "args.ngpu <= 1", "args.ngpu < 2"])
@pytest.mark.parametrize("default", [0, 1])
def test_the_only_gpu_of_a_machine_is_gpu_0(check: Check, default: int, question: str) -> None:
    check(
        PARSER.format(default=default)
        + f"""
if {question}:
    args.local_rank = 0
else:
    args.local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1).to(args.local_rank)
DDP(model, device_ids=[args.local_rank])
if {question}:
    torch.ones(1, device="cuda:0")
"""
    )


def test_all_questions_for_one_gpu_have_one_answer(check: Check) -> None:
    check(
        PARSER.format(default=1)
        + """
dist.init_process_group("nccl")
index = 0 if args.ngpu <= 1 else 1  # DDP103
if args.ngpu > 1:
    torch.ones(1, device=index)
if args.ngpu >= 2:
    torch.ones(1, device=index)
if not args.ngpu == 1:
    torch.ones(1, device=index)
"""
    )


def test_a_program_that_refuses_several_gpus_has_one_rank_a_machine(check: Check) -> None:
    check(
        PARSER.format(default=1)
        + """
if args.ngpu > 1:
    raise SystemExit("one GPU a machine")
dist.init_process_group("nccl")
torch.ones(1, device="cuda:0")
"""
    )


def test_one_process_alone_is_gpu_0(check: Check) -> None:
    check(
        PARSER.format(default=1)
        + """
def main(gpu):
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl")
    torch.ones(1, device="cuda")

if args.ngpu == 1:
    main(0)
else:
    mp.spawn(main, nprocs=args.ngpu)
"""
    )


@pytest.mark.parametrize(
    "name", ["--num-gpus", "--n_gpu", "--gpus", "--gpus-per-node", "--nprocs", "--gpu_count"]
)
def test_counts_are_known_by_their_names(check: Check, name: str) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("{name}", type=int, default=1, dest="given")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    if args.given == 1:
        torch.ones(1, device="cuda:0")
    """)


@pytest.mark.parametrize("name", ["--gpu", "--world-size", "--mode", "--epochs"])
def test_other_numbers_say_nothing_of_a_machine(check: Check, name: str) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("{name}", type=int, default=1, dest="given")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    if args.given == 1:
        torch.ones(1, device="cuda:0")  # DDP103
    """)


def test_what_is_done_for_several_gpus_is_judged(check: Check) -> None:
    check(
        PARSER.format(default=8)
        + """
dist.init_process_group("nccl")
torch.ones(1, device=0 if args.ngpu > 1 else "cpu")  # DDP103
if args.ngpu > 1:
    torch.ones(1, device="cuda:0")  # DDP103
"""
    )


def test_an_attribute_set_on_one_side_only_may_be_another_on_the_other(check: Check) -> None:
    check("""
    def main(args):
        if args.debug:
            args.device = 0
        dist.init_process_group("nccl")
        torch.ones(1, device=args.device)
        if args.debug:
            torch.ones(2, device=0)  # DDP103

    from elsewhere import arguments

    main(arguments())
    """)


ONE_A_MACHINE = """
torch.cuda.set_device(0){}
model = DDP(nn.Linear(1, 1).to("cuda:0"))  {}
"""


@pytest.mark.parametrize(
    "group",
    [
        "size = int(os.environ['SLURM_NNODES'])\n"
        "dist.init_process_group('nccl', world_size=size, rank=number())",
        "dist.init_process_group('nccl', world_size=count(), rank=int(os.environ['SLURM_NODEID']))",
        "os.environ.update(RANK=os.environ.get('SLURM_NODEID', '0'), WORLD_SIZE=str(count()))\n"
        "dist.init_process_group('nccl')",
        "hosts = json.loads(os.environ['SM_HOSTS'])\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--host', default=os.environ['SM_CURRENT_HOST'])\n"
        "rank = hosts.index(parser.parse_args().host)\n"
        "dist.init_process_group('nccl', world_size=len(hosts), rank=rank)",
    ],
)
def test_a_job_that_counts_machines_has_one_rank_on_each(check: Check, group: str) -> None:
    check(group + ONE_A_MACHINE.format("", ""))


@pytest.mark.parametrize(
    "group",
    [
        "size = int(os.environ['SLURM_NNODES']) * torch.cuda.device_count()\n"
        "dist.init_process_group('nccl', world_size=size)",
        "rank = int(os.environ['SLURM_NODEID']) * 8 + int(os.environ['SLURM_LOCALID'])\n"
        "dist.init_process_group('nccl', rank=rank)",
        "dist.init_process_group('nccl', rank=['a', 'b'].index(name()))",
    ],
)
def test_a_job_of_several_ranks_a_machine(check: Check, group: str) -> None:
    check(group + ONE_A_MACHINE.format("  # DDP103", "# DDP103"))
