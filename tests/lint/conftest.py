"""Programs with their expected findings written into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from ddpdoctor.findings import Finding
from ddpdoctor.lint import lint

# What most programs start with, so that a test shows only what it is about.
IMPORTS = """\
import argparse, collections, contextlib, copy, dataclasses, functools, json, operator, os, sys
import threading, torch, yaml
import torch.distributed as dist, torch.multiprocessing as mp
from concurrent.futures import ThreadPoolExecutor
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""

Check = Callable[..., dict[str, Finding]]
Placed = tuple[str, int, str]  # file, row, code


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Lints a program and compares what is found with the markers in it.

    `# DDP101` marks the line on which a finding of that code must stand, `# DDP203: warning` its
    severity as well; nothing else may be found. files: further files of the project, by path.
    entry: where the program stands in it. Gives the findings back by code, for their texts.
    """

    def check(
        source: str, files: Mapping[str, str] | None = None, *, entry: str = "train.py"
    ) -> dict[str, Finding]:
        texts = {name: dedent(text).lstrip("\n") for name, text in (files or {}).items()}
        texts[entry] = IMPORTS + dedent(source).lstrip("\n")
        (tmp_path / "pyproject.toml").touch()
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        linted = lint([tmp_path / entry])
        expected, severities = _markers(texts)
        found: dict[Placed, Finding] = {}
        for finding in linted.findings:
            assert finding.filename is not None
            assert finding.location is not None
            name = Path(finding.filename).relative_to(tmp_path).as_posix()
            found[name, finding.location.row, finding.code] = finding
        assert linted.skipped == ()
        assert _lines(found, texts) == _lines(expected, texts)
        for place, severity in severities.items():
            assert found[place].severity.value == severity, f"severity of {place}"
        return {code: finding for (_, _, code), finding in found.items()}

    return check


def _markers(texts: Mapping[str, str]) -> tuple[list[Placed], dict[Placed, str]]:
    expected: list[Placed] = []
    severities: dict[Placed, str] = {}
    for name, text in texts.items():
        for row, line in enumerate(text.splitlines(), 1):
            comment = line.partition("#")[2]
            for code, severity in re.findall(r"(DDP\d{3})(?:: (\w+))?", comment):
                expected.append((name, row, code))
                if severity:
                    severities[name, row, code] = severity
    return expected, severities


def _lines(places: Iterable[Placed], texts: Mapping[str, str]) -> list[str]:
    """The places with their source lines: what pytest shows when they differ."""
    return sorted(
        f"{code} {name}:{row}: {texts[name].splitlines()[row - 1].strip()}"
        for name, row, code in places
    )
