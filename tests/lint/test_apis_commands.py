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
