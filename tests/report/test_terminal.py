"""Colours are for terminals, NO_COLOR and FORCE_COLOR decide, and every encoding takes the text."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from ddpdoctor.report.terminal import Screen, write


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "colour"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (Terminal(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour(
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    environment: dict[str, str],
    colour: bool,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Screen.of(stream).colour is colour


def test_the_width_is_the_terminals_and_fixed_when_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert Screen.of(Terminal()).columns == 72
    assert Screen.of(io.StringIO()).columns == 100


def test_a_c_locale_gets_escapes_and_no_traceback() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write("模型 ok é\n", stream)
    assert raw.getvalue() == b"\\u6a21\\u578b ok \\xe9\n"


def test_rendering_text_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from ddpdoctor.report import Screen, Summary, render\n"
        "render([], 'text', Summary(1, 1), Screen.of(sys.stdout))\n"
        "print([m for m in ('rich', 'torch', 'libcst', 'html', 'json') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout == "[]\n"
