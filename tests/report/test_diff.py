"""The diff of a fix applies with `git apply`, whatever the file holds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from ddpdoctor.report import Screen
from ddpdoctor.report.diff import unified_diff


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\nc"),
        ("a\nb\n", "a\nb"),
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("a\x0cb\u2028c\r\nd\n", "a\x0cb\u2028c\r\nD\n"),
        ("", "a\n"),
        ("x\x1b[31m\n\ty\n", "x\x1b[31m\n\tz\n"),
    ],
)
def test_git_applies_it(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "a.py").write_bytes(before.encode())
    diff = unified_diff("a.py", before, after, Screen())
    subprocess.run(
        ["git", "apply", "-p0", "--whitespace=nowarn", "-"],
        input=diff.encode(),
        cwd=tmp_path,
        check=True,
        timeout=30,
    )
    assert (tmp_path / "a.py").read_bytes() == after.encode()


def test_no_change_is_no_diff() -> None:
    assert unified_diff("a.py", "a\n", "a\n", Screen()) == ""


def test_on_a_terminal_it_is_coloured_and_harmless() -> None:
    diff = unified_diff(
        "a\x1b.py", "\tx\x1b[2J\n", "\tx\u202e\n", Screen(colour=True, terminal=True)
    )
    assert click.style("+\tx\\u202e", fg="green") in diff
    assert "-\tx\\x1b[2J" in click.unstyle(diff)
    assert "a\\x1b.py" in diff
    assert "\x1b" not in click.unstyle(diff)
