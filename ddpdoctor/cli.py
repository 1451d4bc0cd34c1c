"""The command line, nothing else. Each command imports what it needs when it runs."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Any

import click

from ddpdoctor import __version__
from ddpdoctor.findings import DdpdoctorError

_INTERRUPTED = 130  # by Ctrl-C, as a shell has it: not 1, which means findings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ddpdoctor")
def cli() -> None:
    """Find, repair and prove GPU misplacement in DistributedDataParallel programs.

    Exit code 0: nothing found. 1: findings. 2: the job could not be done.
    """


@cli.command("lint")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--fix", is_flag=True, help="Apply the safe repairs.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: the unsafe ones too.")
@click.option("--diff", is_flag=True, help="Show the repairs as a diff and write nothing.")
@click.option("--select", metavar="CODES", help="Only these rules, such as DDP101,DDP3.")
@click.option("--ignore", metavar="CODES", help="All rules but these.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "concise", "json", "sarif", "github"]),
    default="text",
)
@click.option("--no-cache", is_flag=True, help="Judge every program anew.")
@click.option("-v", "--verbose", is_flag=True, help="Say what was not followed to its end.")
def lint_command(**options: Any) -> None:
    """Find misplacement in programs, without running them.

    A script means its whole program, every file it reaches; a folder means every program in it.
    """
    from ddpdoctor.lint.command import lint_command

    sys.exit(lint_command(**options))


@cli.command()
@click.argument("code")
def explain(code: str) -> None:
    """Show the page of a rule, such as DDP101."""
    from ddpdoctor.catalogue import rules
    from ddpdoctor.report.pages import show_page

    rule = rules().get(code.upper())
    if rule is None:
        raise DdpdoctorError(f"unknown rule {code}; `ddpdoctor rules` lists them")
    show_page(rule)


@cli.command("rules")
def list_rules() -> None:
    """List every rule, a line each."""
    from ddpdoctor.catalogue import rules
    from ddpdoctor.report.pages import show_list

    show_list(rules().values())


@cli.command("ps")
@click.option("--stacks", is_flag=True, help="Show where each rank stands (needs py-spy).")
@click.option(
    "--ledger",
    metavar="FOLDER",
    envvar="DDPDOCTOR_LEDGER",
    help="Look at virtual GPUs, whose ledger is in this folder, instead of NVIDIA's.",
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text")
def show_running(stacks: bool, ledger: str | None, output_format: str) -> None:
    """Show which rank is on which GPU, for jobs that already run on this machine."""
    from ddpdoctor.ps.command import ps

    sys.exit(ps(ledger, stacks, output_format))


@cli.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--nproc", type=int, help="Ranks on this node; default: one a GPU, or 8.")
@click.option(
    "--virtual/--no-virtual",
    default=None,
    help="Run on virtual GPUs, one a rank; default: where no GPU is seen.",
)
@click.option(
    "--timeout",
    type=float,
    default=180.0,
    show_default=True,
    metavar="SECONDS",
    help="Time without any progress after which the job counts as hung.",
)
@click.option(
    "--launcher",
    type=click.Choice(["torchrun", "none"]),
    help="Start the ranks with torchrun, or let the program start them; default: found out.",
)
@click.option("--corrected", is_flag=True, help="Run it again with lint's repairs, in a copy.")
@click.option("--nnodes", type=int, default=1, help="Number of nodes.")
@click.option("--node-rank", type=int, default=0, help="Number of this node, from 0.")
@click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where the nodes meet: on node 0.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text")
@click.option("--report", type=click.Path(dir_okay=False), help="Write an HTML page as well.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT ARGS...]")
def probe(
    nproc: int | None,
    virtual: bool | None,
    timeout: float,
    launcher: str | None,
    corrected: bool,
    nnodes: int,
    node_rank: int,
    rdzv_endpoint: str | None,
    output_format: str,
    report: str | None,
    command: tuple[str, ...],
) -> None:
    """Run a program and watch which rank sits on which GPU.

    Without SCRIPT: the reference job, first misplaced, then corrected.
    """
    from ddpdoctor.probe.command import Request, exit_code, probe
    from ddpdoctor.probe.output import check_page, write

    if report is not None:
        check_page(report)
    result = probe(
        Request(
            command,
            nproc,
            virtual,
            timeout,
            launcher,
            corrected,
            nnodes,
            node_rank,
            rdzv_endpoint,
        )
    )
    write(result, output_format, report)
    sys.exit(exit_code(result))


def main() -> None:
    """The console script: one clear line and exit code 2 where the job cannot be done."""
    # A short run is mostly imports, and their objects stay: to look for garbage among them, on
    # the way and once more at the end, takes a seventh of its time.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    _keep_closed_streams()
    try:
        sys.exit(cli.main(prog_name="ddpdoctor", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except DdpdoctorError as error:
        click.echo(f"ddpdoctor: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        _drop_output()
        click.echo(f"ddpdoctor: {error}", err=True)
        sys.exit(2)


def _keep_closed_streams() -> None:
    """Where the caller closed one (`>&-`), what is written there is lost, as print does it."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _drop_output() -> None:
    """What a full disk did not take would be written, and fail, once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
