"""Records survive what happens to the process that writes them."""

from __future__ import annotations

import os
from pathlib import Path

from ddpdoctor.probe.records import Recorder, read_records


def test_records_come_back_in_the_order_of_time(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    recorder.write("first", fact=1)
    recorder.write("second", fact=[2])
    found = read_records(tmp_path)
    assert [(one.kind, one.facts, one.pid) for one in found] == [
        ("first", {"fact": 1}, os.getpid()),
        ("second", {"fact": [2]}, os.getpid()),
    ]


def test_a_line_that_was_cut_short_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    Recorder(str(tmp_path)).write("whole")
    with (tmp_path / f"process-{os.getpid()}.jsonl").open("a") as file:
        file.write('{"kind": "cut", "at": 1')
    assert [one.kind for one in read_records(tmp_path)] == ["whole"]


def test_a_full_disk_does_not_end_the_users_program() -> None:
    Recorder("/dev/full/nowhere").write("lost")


def test_only_the_user_can_read_the_records(tmp_path: Path) -> None:
    Recorder(str(tmp_path)).write("private")
    assert next(tmp_path.glob("*.jsonl")).stat().st_mode & 0o077 == 0
