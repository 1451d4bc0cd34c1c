"""Rounds of repairs: fixes that touch wait, those that do not help or parse are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ddpdoctor.findings import Applicability, Edit, Finding, Fix, Location, Severity
from ddpdoctor.lint import Linted
from ddpdoctor.lint.edits import edited, together
from ddpdoctor.lint.rounds import repair
from ddpdoctor.lint.sources import Unreadable


def edit(path: Path, row: int, column: int, end: int, content: str) -> Edit:
    return Edit(str(path), Location(row, column), Location(row, end), content)


def finding(path: Path, *edits: Edit, safe: bool = True) -> Finding:
    kind = Applicability.SAFE if safe else Applicability.UNSAFE
    at = edits[0].location
    fix = Fix(kind, "", edits)
    return Finding("DDP999", "", Severity.ERROR, str(path), at, at, fix=fix)


class Words:
    """A linter that finds words in files and wants them replaced."""

    def __init__(self, words: dict[str, str], *paths: Path, safe: bool = True) -> None:
        self.words = words
        self.paths = paths
        self.safe = safe

    def __call__(self, contents: Mapping[Path, bytes]) -> Linted:
        found = tuple(
            finding for path in self.paths for finding in self._in(path, contents.get(path))
        )
        return Linted(found, len(self.paths), 1, ())

    def _in(self, path: Path, data: bytes | None) -> Iterator[Finding]:
        text = (path.read_bytes() if data is None else data).decode()
        for row, line in enumerate(text.split("\n"), 1):
            for word, new in self.words.items():
                column = line.find(word) + 1
                if column:
                    change = edit(path, row, column, column + len(word), new)
                    yield finding(path, change, safe=self.safe)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def test_nothing_is_written_by_repairing(path: Path) -> None:
    path.write_text("bad\n")
    repaired = repair(Words({"bad": "good"}, path), unsafe=False)
    assert (repaired.before, repaired.after) == ({path: b"bad\n"}, {path: b"good\n"})
    assert path.read_text() == "bad\n"
    assert repaired.repaired == 1


def test_unsafe_repairs_are_only_made_when_asked_for(path: Path) -> None:
    path.write_text("bad\n")
    words = Words({"bad": "good"}, path, safe=False)
    assert repair(words, unsafe=False).after == {}
    assert repair(words, unsafe=True).after == {path: b"good\n"}


def test_repairs_that_touch_are_made_one_after_the_other(path: Path) -> None:
    path.write_text("one+two\n")
    repaired = repair(Words({"one": "1", "one+": "1 + ", "two": "2"}, path), unsafe=False)
    assert repaired.after == {path: b"1 + 2\n"}


def test_a_repair_that_leaves_its_finding_standing_is_left_out(path: Path) -> None:
    path.write_text("odd\nbad\n")
    repaired = repair(Words({"odd": "odd; odd", "bad": "good"}, path), unsafe=False)
    assert repaired.after == {path: b"odd\ngood\n"}
    assert len(repaired.linted.findings) == 1


def test_a_finding_is_known_again_when_lines_and_columns_have_moved(path: Path) -> None:
    path.write_text("bad; odd\n")
    words = Words({"odd": "odd", "bad": "first\ngood"}, path)
    assert repair(words, unsafe=False).after == {path: b"first\ngood; odd\n"}


def test_repairs_after_which_there_is_more_to_repair_are_left_out(path: Path) -> None:
    path.write_text("one\n")
    repaired = repair(Words({"one": "two; new", "two": "2", "new": "3"}, path), unsafe=False)
    assert repaired.after == {}


@pytest.mark.parametrize("bad", range(5))
def test_of_many_repairs_only_the_one_that_does_harm_is_left_out(path: Path, bad: int) -> None:
    lines = [f"bad{number}" for number in range(5)]
    path.write_text("\n".join(lines))
    words = {line: f"good{number}" for number, line in enumerate(lines)}
    words |= {lines[bad]: "new, newer", "newer": "good", "new": "good"}
    repaired = repair(Words(words, path), unsafe=False)
    good = [lines[number] if number == bad else f"good{number}" for number in range(5)]
    assert repaired.after == {path: "\n".join(good).encode()}
    assert repaired.repaired == 4


def test_a_file_that_would_no_longer_parse_is_left_alone_and_named(tmp_path: Path) -> None:
    broken, fine = tmp_path / "broken.py", tmp_path / "fine.py"
    for file in (broken, fine):
        file.write_text(f"bad_{file.stem}\n")
    repaired = repair(Words({"bad_broken": "if", "bad_fine": "good"}, broken, fine), unsafe=False)
    assert repaired.after == {fine: b"good\n"}
    (line,) = repaired.refused
    assert line.startswith(f"{broken} is left as it is, for with its repairs it would be of no use")
    assert line.endswith(": syntax error at line 1")


def test_a_file_that_would_no_longer_compile_is_left_alone(path: Path) -> None:
    path.write_text("def f():\n    bad\n")
    repaired = repair(Words({"    bad": "    x = 1; nonlocal x"}, path), unsafe=False)
    assert repaired.after == {}
    assert "no longer compiles" in repaired.refused[0]


def test_a_program_that_this_python_cannot_compile_is_repaired_all_the_same(path: Path) -> None:
    path.write_text("return bad\n")  # the grammar allows it
    assert repair(Words({"bad": "good"}, path), unsafe=False).after == {path: b"return good\n"}


# -- edits --------------------------------------------------------------------------------------


def test_of_fixes_that_touch_the_first_is_taken(path: Path) -> None:
    first = Fix(Applicability.SAFE, "1", (edit(path, 1, 1, 4, "a"), edit(path, 2, 1, 1, "os")))
    second = Fix(Applicability.SAFE, "2", (edit(path, 1, 4, 6, "b"),))
    third = Fix(Applicability.SAFE, "3", (edit(path, 3, 1, 2, "c"), edit(path, 2, 1, 1, "os")))
    other = Fix(Applicability.SAFE, "4", (edit(path, 2, 1, 1, "sys"),))
    elsewhere = Fix(Applicability.SAFE, "5", (edit(path.with_name("b.py"), 1, 1, 9, "d"),))
    fixes = [first, second, first, third, other, elsewhere]
    assert together(fixes) == [first, third, elsewhere]


FILES = {
    "windows": b"import os\r\nbad\r\nif x:\r\n\ty\r\n",
    "old Mac": b"import os\rbad\r",
    "mixed line ends": b"# a\rbad\r\nx\ny",
    "no last newline": b"# a\nbad",
    "byte order mark": b"\xef\xbb\xbf# a\nbad\n",
    "declared encoding": b"# coding: latin-1\nbad; '\xe9'\n",
    "two bytes a character": "# coding: shift_jis\nbad # 日本\n".encode("shift_jis"),
    "form feed": b"# a\x0c\nbad\n\x0c\nx\n",
    "odd separators": "# a\x0b\x85\u2028\nbad\n".encode(),
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES.keys())
def test_every_byte_outside_an_edit_stays(data: bytes, path: Path) -> None:
    assert edited(data, {edit(path, 2, 1, 4, "good")}, path) == data.replace(b"bad", b"good")


def test_a_character_that_the_encoding_lacks_is_refused(path: Path) -> None:
    data = b"# coding: latin-1\nbad\n"
    with pytest.raises(Unreadable, match="cannot be edited"):
        edited(data, {edit(path, 2, 1, 4, "'\u65e5'")}, path)


def test_a_place_that_the_file_lacks_is_refused(path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be edited"):
        edited(b"bad\n", {edit(path, 7, 1, 4, "good")}, path)
