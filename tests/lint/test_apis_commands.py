"""Command lines made of functions: their parameters are options with defaults."""

from __future__ import annotations

import pytest

SETUP = """\
def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")

"""


@pytest.mark.parametrize(
    "start",
    [
        "import fire\nfire.Fire(main)\n",
        'import fire\nfire.Fire({"train": main})\n',
        "import typer\ntyper.run(main)\n",
        "import tyro\ntyro.cli(main)\n",
        "import jsonargparse\njsonargparse.CLI(main)\n",
    ],
)
def test_a_function_whose_parameters_are_options(check, start):
    check(
        SETUP
        + "def main(path='x', gpu=0):  # DDP103\n"
        + "    setup()\n    torch.ones(1, device=f'cuda:{gpu}')\n\n"
        + start
    )


def test_a_local_rank_option_is_not_set_by_torchrun(check):
    check(
        """
        import fire

        def main(local_rank=0):  # DDP204
            torch.cuda.set_device(local_rank)
            dist.init_process_group("nccl")

        fire.Fire(main)
        """
    )


def test_a_record_of_options(check):
    check(
        SETUP
        + """
import tyro

@dataclasses.dataclass
class Options:
    gpu: int = 0  # DDP103

options = tyro.cli(Options)
setup()
torch.ones(1, device=f"cuda:{options.gpu}")
"""
    )


@pytest.mark.parametrize("library", ["pyrallis", "draccus"])
def test_a_record_that_annotates_the_function(check, library):
    check(
        SETUP
        + f"""
import {library}

@dataclasses.dataclass
class Options:
    gpu: int = 0  # DDP103: warning

@{library}.wrap()
def main(options: Options):
    setup()
    torch.ones(1, device=options.gpu)
    torch.ones(2, device={library}.parse(config_class=Options).gpu)

main()
"""
    )


def test_a_record_among_the_options_of_a_parser(check):
    check(
        SETUP
        + """
from simple_parsing import ArgumentParser

@dataclasses.dataclass
class Options:
    gpu: int = 0  # DDP103: warning

parser = ArgumentParser()
parser.add_argument("--card", default=1)  # DDP103: warning
parser.add_arguments(Options, dest="options")
args = parser.parse_args()
setup()
torch.ones(1, device=args.options.gpu)
torch.ones(1, device=args.card)
"""
    )


@pytest.mark.parametrize("parser", ["jsonargparse.ArgumentParser", "configargparse.ArgParser"])
def test_parsers_that_take_what_argparse_takes(check, parser):
    check(
        SETUP
        + f"""
import {parser.partition(".")[0]}

parser = {parser}()
parser.add_argument("--gpu", type=int, default=1)  # DDP103: warning
setup()
torch.ones(1, device=parser.parse_args().gpu)
"""
    )


def test_absl_passes_the_rest_of_the_command_line(check):
    check(
        SETUP
        + """
from absl import app

def main(argv):
    setup()
    torch.ones(1, device="cuda:0")  # DDP103

app.run(main)
"""
    )


def test_absl_flags_have_defaults(check):
    check(
        SETUP
        + """
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_integer("gpu", 0, "which GPU")  # DDP103: warning
flags.DEFINE_string("device", default="cuda:1", help="where to")  # DDP103
flags.DEFINE_integer("card", None, "another", required=True)
SHARD = flags.DEFINE_integer("shard", 2, "where a shard goes")  # DDP103

def main(argv):
    setup()
    torch.ones(1, device=FLAGS.gpu)
    torch.ones(1, device=flags.FLAGS.device)
    torch.ones(1, device=FLAGS.card)
    torch.ones(1, device=SHARD.value)
    FLAGS.gpu = int(os.environ["LOCAL_RANK"])
    torch.ones(1, device=FLAGS.gpu)

if __name__ == "__main__":
    app.run(main)
"""
    )


def test_absl_flags_are_seen_in_every_file(check):
    check(
        """
        from absl import app
        from options import FLAGS

        def main(_):
            torch.cuda.set_device(FLAGS.local_rank)
            dist.init_process_group("nccl")

        app.run(main)
        """,
        {
            "options.py": """
            from absl import flags

            FLAGS = flags.FLAGS
            flags.DEFINE_integer("local_rank", 0, "set by the launcher")  # DDP204
            """
        },
    )


def test_decorators_keep_the_function(check):
    check(
        SETUP
        + """
import hydra
from torch.distributed.elastic.multiprocessing.errors import record

@record
@hydra.main(config_path="conf", config_name="train")
def main(cfg):
    setup()
    torch.ones(1, device="cuda:0")  # DDP103

main()
"""
    )


def test_click_options(check):
    check(
        SETUP
        + """
import click

@click.command()
@click.option("--gpu", default=0)  # DDP103
def main(gpu):
    setup()
    torch.ones(1, device=f"cuda:{gpu}")

main()
"""
    )
