"""The command line, nothing else. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys

import click

from ddpdoctor import __version__
from ddpdoctor.findings import DdpdoctorError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ddpdoctor")
def cli() -> None:
    """Find, repair and prove GPU misplacement in DistributedDataParallel programs.

    Exit code 0: nothing found. 1: findings. 2: the job could not be done.
    """


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


def main() -> None:
    """The console script: one clear line and exit code 2 where the job cannot be done."""
    try:
        cli.main(prog_name="ddpdoctor")
    except DdpdoctorError as error:
        click.echo(f"ddpdoctor: {error}", err=True)
        sys.exit(2)
