"""Logs keep the beginning and the end of what a program prints, and no more."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ddpdoctor.probe.logs import Logs, tail

_LINE = b"0123456789abcde\n"


def _log(folder: Path, content: list[bytes]) -> Logs:
    reading, writing = os.pipe()
    logs = Logs(folder)
    logs.add("rank-0.out", reading)
    logs.start()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            for chunk in content:
                pipe.write(chunk)

    writer = threading.Thread(target=write)
    writer.start()
    writer.join(60)
    logs.close()
    return logs


def test_what_was_printed_is_kept_whole(tmp_path: Path) -> None:
    logs = _log(tmp_path, [b"one\n", b"two\n"])
    assert (tmp_path / "rank-0.out.log").read_bytes() == b"one\ntwo\n"
    assert logs.bytes_read == 8
    assert logs.problem is None


def test_a_program_that_prints_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    chunk = _LINE * 4096
    count = 32 * 2**20 // len(chunk)
    logs = _log(tmp_path, [b"first\n", *[chunk] * count, b"last\n"])
    kept = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert logs.bytes_read == len(chunk) * count + 11
    assert kept <= 9 * 2**20
    assert (tmp_path / "rank-0.out.log").read_bytes().startswith(b"first\n")
    assert tail(tmp_path, "rank-0.out").endswith("abcde\nlast\n")


def test_a_full_disk_is_told_and_the_program_goes_on(tmp_path: Path) -> None:
    (tmp_path / "rank-0.out.log").symlink_to("/dev/full")
    logs = _log(tmp_path, [_LINE * 100_000])
    assert logs.bytes_read == len(_LINE) * 100_000
    assert logs.problem == "rank-0.out.log is not whole: No space left on device"
