"""Writes a probe's report: to standard output as text or JSON, and as a page where asked for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.probe.results import ProbeReport
from ddpdoctor.report import terminal
from ddpdoctor.report.html import html_page
from ddpdoctor.report.probe_text import probe_text


def check_page(page: str) -> None:
    """Before a run: raises DdpdoctorError where its page could not be written."""
    path = Path(page)
    if not path.parent.is_dir():
        raise DdpdoctorError(f"--report {page}: the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise DdpdoctorError(f"--report {page} cannot be written")


def write(report: ProbeReport, output_format: str, page: str | None) -> None:
    """page: path of the HTML page. Raises DdpdoctorError where it cannot be written."""
    if output_format == "json":
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        terminal.write(probe_text(report, terminal.Screen.of(sys.stdout)), sys.stdout)
    if page is None:
        return
    try:
        Path(page).write_text(html_page(report), encoding="utf-8")
    except OSError as error:
        raise DdpdoctorError(f"{page} cannot be written: {error.strerror}") from error
