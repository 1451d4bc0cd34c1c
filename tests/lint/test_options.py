"""Command-line options: their defaults are what the program does when nobody says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_a_default_is_reported_where_it_is_written(check: Check) -> None:
    found = check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("-g", "--gpu-index", type=int, default=2)  # DDP103: warning
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu_index)
    """)
    assert "--gpu-index" in found["DDP103"].message


def test_an_option_without_default_is_none(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int)
    args = parser.parse_args()
    if args.gpu is None:
        args.gpu = 3  # DDP103
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    """)


def test_a_required_option_or_argument_is_unknown(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, required=True, default=3)
    parser.add_argument("card", type=int)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    torch.ones(1, device=args.card)
    """)


def test_names_and_destinations(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", default=1, dest="card")  # DDP103
    parser.add_argument("-s", default=2)  # DDP103
    group = parser.add_argument_group("devices")
    group.add_argument("--third", default="cuda:3")  # DDP103
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--fourth", default=4)  # DDP103
    args = parser.parse_args()
    dist.init_process_group("nccl")
    for_each = [args.card, args.s, args.third, args.fourth]
    torch.ones(1, device=for_each[0])
    torch.ones(1, device=for_each[1])
    torch.ones(1, device=for_each[2])
    torch.ones(1, device=for_each[3])
    """)


def test_parents_give_their_options(check: Check) -> None:
    check("""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--gpu", default=1)  # DDP103
    parser = argparse.ArgumentParser(parents=[common])
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    """)


def test_subparsers_have_options_and_functions(check: Check) -> None:
    check("""
    def train(args):
        dist.init_process_group("nccl")
        torch.ones(1, device=args.gpu)

    def show(args):
        torch.ones(1).cuda()

    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    first = commands.add_parser("train")
    first.add_argument("--gpu", default=1)  # DDP103
    first.set_defaults(run=train)
    second = commands.add_parser("show")
    second.set_defaults(run=show)
    args = parser.parse_args()
    args.run(args)
    """)


@pytest.mark.parametrize("given", ["dest='command'", "title='x', dest='command', required=True"])
def test_any_subcommand_can_be_the_one_that_is_run(check: Check, given: str) -> None:
    check(f"""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers({given})
    commands.add_parser("train").add_argument("--gpu", default=1)  # DDP103
    commands.add_parser("show")
    args = parser.parse_args()
    if args.command == "show":
        print()
    elif args.command == "train":
        dist.init_process_group("nccl")
        torch.ones(1, device=args.gpu)
    """)


def test_known_arguments_are_taken_apart(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default=1)  # DDP103
    args, rest = parser.parse_known_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    """)


def test_defaults_that_are_set_later(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default=1)
    parser.set_defaults(gpu=2, other=3)  # DDP103
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.other)
    """)


def test_a_default_from_the_environment_is_the_launchers(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    parser.add_argument("--rank", type=int, default=os.environ.get("RANK"))
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    torch.ones(1, device=args.rank)  # DDP203
    """)


def test_options_in_a_dictionary(check: Check) -> None:
    check("""
    def main(gpu, **rest):
        torch.ones(1, device=gpu)

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default=1)  # DDP103
    args = parser.parse_args()
    dist.init_process_group("nccl")
    main(**vars(args))
    torch.ones(1, device=vars(args)["gpu"])
    torch.ones(1, device=args.__dict__["gpu"])
    torch.ones(1, device=getattr(args, "gpu"))
    """)


def test_options_are_overwritten(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default=0)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    args.gpu = int(os.environ["LOCAL_RANK"])
    args.device = f"cuda:{args.gpu}"
    args.distributed = True
    dist.init_process_group("nccl")
    torch.ones(1, device=args.gpu)
    torch.ones(1, device=args.device)
    """)


def test_an_option_passed_into_a_namespace(check: Check) -> None:
    check("""
    class Options:
        pass

    options = Options()
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default=1)  # DDP103
    parser.parse_args(namespace=options)
    dist.init_process_group("nccl")
    torch.ones(1, device=options.gpu)
    """)


def test_a_parser_filled_by_functions_and_classes(check: Check) -> None:
    check("""
    def add_options(parser):
        parser.add_argument("--gpu", default=1)  # DDP103
        return parser

    class Options:
        def __init__(self):
            self.parser = add_options(argparse.ArgumentParser())

        def parse(self):
            self.args = self.parser.parse_args()
            return self.args

    dist.init_process_group("nccl")
    torch.ones(1, device=Options().parse().gpu)
    """)


@pytest.mark.parametrize("spelling", ["--local_rank", "--local-rank", "--local_process_index"])
def test_a_local_rank_option_is_not_set_by_torchrun(check: Check, spelling: str) -> None:
    name = spelling.lstrip("-").replace("-", "_")
    check(f"""
    parser = argparse.ArgumentParser()
    parser.add_argument("{spelling}", type=int, default=0)  # DDP204: warning
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.ones(1, device=args.{name})
    """)


def test_click_options_are_parameters(check: Check) -> None:
    check("""
    import click

    @click.command()
    @click.option("--gpu-index", default=1)  # DDP103
    @click.option("--device", "-d", "where", default="cuda:2")  # DDP103
    def main(gpu_index, where):
        dist.init_process_group("nccl")
        torch.ones(1, device=gpu_index)
        torch.ones(1, device=where)

    main()
    """)


def test_dataclasses_filled_from_the_command_line(check: Check) -> None:
    check("""
    from transformers import HfArgumentParser

    @dataclasses.dataclass
    class Options:
        gpu: int = 1  # DDP103: warning
        device: str = dataclasses.field(default="cuda:2")  # DDP103: warning

    options, = HfArgumentParser(Options).parse_args_into_dataclasses()
    dist.init_process_group("nccl")
    torch.ones(1, device=options.gpu)
    torch.ones(1, device=options.device)
    """)


def test_a_flag_is_one_condition(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--no-cuda", action="store_false", dest="cuda")
    args = parser.parse_args()
    dist.init_process_group("gloo" if args.cpu else "nccl")  # DDP201
    torch.ones(1, device="cpu" if args.cpu else "cuda")  # DDP102
    if args.cuda:
        torch.ones(1).cuda()  # DDP101
    """)


@pytest.mark.parametrize("question", ['sys.argv[1] == "train"', "len(sys.argv) == 2"])
def test_what_the_program_asks_of_its_command_line_is_not_known(
    check: Check, question: str
) -> None:
    check(f"""
    from sys import argv
    dist.init_process_group("nccl")  # DDP201
    if {question}:
        torch.ones(1).cuda()  # DDP101
    elif argv[1] == "test":
        torch.ones(1).cuda()  # DDP101
    else:
        torch.ones(1).cuda()  # DDP101
    """)


def test_ranks_run_on_linux(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")  # DDP201
    if sys.platform == "win32" or os.name == "nt" or sys.platform.startswith("darwin"):
        torch.ones(1).cuda()
    if sys.platform == "linux" and os.name == "posix":
        torch.ones(1).cuda()  # DDP101
    """)


IDS = """
parser = argparse.ArgumentParser()
parser.add_argument("--gpu_ids", default="0"){marker}
parser.add_argument("--others")
args = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(1).to(int(args.gpu_ids.split(",")[0]))',
        'ids = [int(i) for i in args.gpu_ids.split(",")]; torch.ones(1).cuda(ids[0])',
        "ids = []\n"
        "for text in args.gpu_ids.split(','):\n"
        "    if int(text) >= 0: ids.append(int(text))\n"
        "device = torch.device('cuda:{}'.format(ids[0])) if ids else torch.device('cpu')\n"
        "torch.ones(1).to(device)",
    ],
)
def test_an_option_that_is_a_list_in_a_string_has_its_default_pieces(
    check: Check, use: str
) -> None:
    check(IDS.format(marker="  # DDP103: warning") + use)


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(1).to(int(args.gpu_ids.split(",")[local_rank]))',
        "torch.ones(1).to(int(args.gpu_ids.split(args.separator)[0]))",
        'if len(args.gpu_ids.split(",")) == 1: torch.ones(1).to(local_rank)',
        'torch.ones(1).to(int(args.others.split(",")[0]))',
        "args.gpu_ids = [local_rank]; torch.ones(1).to(args.gpu_ids[0])",
    ],
)
def test_another_piece_than_a_known_one_is_not_known(check: Check, use: str) -> None:
    check(IDS.format(marker="") + use)


def test_of_a_large_table_the_first_entry_is_one_that_may_be_chosen(check: Check) -> None:
    entries = ", ".join(f'"{name}": other' for name in "bcdefghijk")
    check(f"""
    def first():
        torch.ones(1).to("cuda:0")  # DDP103

    def other():
        torch.ones(1)

    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=list("abcdefghijk"))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    {{"a": first, {entries}}}[parser.parse_args().task]()
    """)
