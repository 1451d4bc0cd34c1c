"""Findings as text: the excerpt stays straight and harmless whatever is in the source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpdoctor.findings import Finding, Location, Related, Severity
from ddpdoctor.report import Screen, Summary, render
from ddpdoctor.report.excerpt import place
from ddpdoctor.report.terminal import fit, printable, width

SUMMARY = Summary(files=2, programs=1, skipped=("broken.py:3: syntax error: invalid syntax",))


def finding_at(filename: Path | str, row: int, column: int, end_column: int) -> Finding:
    return Finding(
        code="DDP101",
        message="bare .cuda()",
        severity=Severity.ERROR,
        filename=str(filename),
        location=Location(row, column),
        end_location=Location(row, end_column),
    )


def shown(finding: Finding, columns: int = 100) -> str:
    return render([finding], "text", SUMMARY, Screen(columns=columns))


def marked(text: str) -> str:
    """What stands above the carets, by terminal cells."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if re.fullmatch(r"\s*\| +\^+", line))
    carets = lines[at]
    cells = "".join(char + "\0" * (width(char) - 1) for char in lines[at - 1])
    return cells[carets.index("^") : len(carets)].replace("\0", "")


@pytest.mark.usefixtures("program")
def test_text_report(findings: list[Finding], snapshot: Callable[[str, str], None]) -> None:
    snapshot("findings.txt", render(findings, "text", SUMMARY, Screen()))


@pytest.mark.usefixtures("program")
def test_text_report_on_a_narrow_terminal(
    findings: list[Finding], snapshot: Callable[[str, str], None]
) -> None:
    text = render(findings, "text", Summary(2, 1), Screen(columns=50))
    snapshot("findings-narrow.txt", text)
    told = text[: text.index("Found ")]
    assert max(map(len, told.splitlines())) <= 50


def test_a_line_is_quoted_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, folder in enumerate(("one", "two", "one")):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        Path("a.py").write_text(f"x.cuda({number})  # in {folder}\n")
        assert f"x.cuda({number})  # in {folder}" in shown(finding_at(Path("a.py"), 1, 1, 2))


def test_a_line_is_quoted_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x.cuda(0)\ny.cuda(0)\n")
    finding = finding_at(path, 1, 8, 9)
    for row, code, times in ((1, "x.cuda(0)", 1), (2, "y.cuda(0)", 2)):
        related = (Related(str(path), Location(row, 3), "takes effect here"),)
        told = shown(replace(finding, related=related))
        assert f"a.py:{row}:3: takes effect here" in told
        assert told.count(code) == times
        both = render(
            [replace(finding, related=related), finding_at(path, 2, 8, 9)],
            "text",
            SUMMARY,
            Screen(),
        )
        assert both.count("y.cuda(0)") == 2  # once as the line below the first


@pytest.mark.usefixtures("program")
def test_colours_change_nothing_but_colour(findings: list[Finding]) -> None:
    plain = render(findings, "text", SUMMARY, Screen())
    colourful = render(findings, "text", SUMMARY, Screen(colour=True))
    assert "\x1b[" in colourful
    assert "\x1b" not in plain
    assert click.unstyle(colourful) == plain


def test_carets_stand_under_code_after_tabs_and_wide_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('\tmodel = net("模型", é).cuda()\n', encoding="utf-8")
    assert marked(shown(finding_at(path, 1, 10, 30))) == 'net("模型", é).cuda()'


def test_a_place_before_the_code_of_its_line_means_the_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("if x:\n    m.cuda()  \n")
    assert marked(shown(replace(finding_at(path, 2, 1, 1), end_location=None))) == "m.cuda()"
    assert marked(shown(replace(finding_at(path, 2, 7, 1), end_location=None))) == "c"


def test_a_long_line_is_cut_around_the_carets(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = [" + "1, " * 400 + "m.cuda(), " + "2, " * 400 + "]\n" + "y = 1\n")
    text = shown(finding_at(path, 1, 1206, 1214), columns=60)
    assert marked(text) == "m.cuda()"
    assert max(map(len, text.split("Skipped")[0].splitlines()[2:])) <= 60
    assert re.search(r"^ 1 \| \.\.\..*\.\.\.$", text, re.MULTILINE)


def test_a_coding_cookie_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nnäm = m.cuda()\n".encode("latin-1"))
    text = shown(finding_at(path, 2, 7, 15))
    assert "näm = m.cuda()" in text
    assert marked(text) == "m.cuda()"


def test_a_byte_order_mark_and_a_form_feed_move_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n\x0cb = m.cuda()\r\n")
    text = shown(finding_at(path, 2, 6, 14))
    assert marked(text) == "m.cuda()"
    assert "\x0c" not in text


def test_escape_sequences_and_bidirectional_marks_are_neutralised(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mevil\u202e.py"
    path.write_text("m.cuda()  # \x1b]0;owned\x07 \u202e \x9b2J \u2028\n", encoding="utf-8")
    finding = replace(finding_at(path, 1, 1, 9), message="in \x1b[2J here")
    for format in ("text", "concise", "github"):
        text = render([finding], format, SUMMARY, Screen())
        assert not set(text) & set("\x1b\x07\x9b\u202e\u2028\r")
        assert "\\x1b[31mevil\\u202e.py" in text
        assert "in \\x1b[2J here" in text
    assert "\\x1b]0;owned\\x07 \\u202e \\x9b2J \\u2028" in shown(finding)


def test_a_path_that_is_not_utf8_is_shown_and_its_source_read(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/net\xff.py")
    Path(path).write_text("m.cuda()\n")
    text = shown(finding_at(path, 1, 1, 9))
    assert "net\\xff.py:1:1" in text
    assert marked(text) == "m.cuda()"
    text.encode()


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe m\n", b"# coding: nonsense\nm\n"])
def test_a_file_without_that_line_gives_the_place_alone(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.py"
    if content is not None:
        path.write_bytes(content)
    text = shown(finding_at(path, 7, 1, 3))
    assert f"--> {path}:7:1\n" in text
    assert " |" not in text


@given(
    line=st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=300),
    data=st.data(),
    columns=st.integers(30, 120),
)
def test_any_line_is_harmless_and_stays_in_the_screen(
    tmp_path_factory: pytest.TempPathFactory, line: str, data: st.DataObject, columns: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.py"
    path.write_text(line, encoding="utf-8-sig")
    begin = data.draw(st.integers(1, len(line) + 1))
    end = data.draw(st.integers(begin, len(line) + 2))
    lines = place(
        "-->",
        str(path),
        Location(1, begin),
        Location(1, end),
        screen=Screen(columns=columns),
        colour="red",
    )
    for part in lines[1:]:
        assert part.isprintable()
        assert width(part) <= columns
    if len(lines) > 1:
        assert lines[3].endswith("^")


@given(st.text(max_size=40), st.integers(1, 30))
def test_fit_gives_exactly_the_cells(text: str, cells: int) -> None:
    assert width(fit(printable(text), cells)) == cells


def test_what_is_said_alike_of_several_places_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x.cuda()\n\ny.cuda()\n")
    one = replace(finding_at(path, 1, 1, 9), repair="name the device")
    other = replace(one, location=Location(3, 1), end_location=Location(3, 9))
    text = render([one, other], "text", SUMMARY, Screen())
    assert text.count("DDP101 error, 2 places: bare .cuda()\n") == 1
    assert text.count("name the device") == 1
    assert text.index("x.cuda()") < text.index("y.cuda()") < text.index("name the device")
    for different in (replace(other, repair="bind it"), replace(other, severity=Severity.INFO)):
        assert "places" not in render([one, different], "text", SUMMARY, Screen())
    told = render([replace(one, filename=None, location=None)] * 2, "text", SUMMARY, Screen())
    assert told.count("DDP101 error: bare .cuda()") == 2


def test_a_run_that_found_no_program_says_so() -> None:
    text = render([], "text", Summary(files=12, programs=0), Screen())
    assert text == "No distributed program found, so nothing was judged: 12 files looked at.\n"


def test_silence_about_a_program_that_was_not_followed_is_no_verdict() -> None:
    text = render([], "text", Summary(files=900, programs=1, unfinished=1), Screen())
    assert text.startswith("Not followed to the end: 1 program, for the size; `--verbose` names")


def test_a_clean_program_says_what_was_looked_at() -> None:
    text = render([], "text", Summary(files=1, programs=2), Screen())
    assert text == "No misplacement found: 1 file looked at, 2 distributed programs.\n"
