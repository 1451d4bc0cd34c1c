"""Files are replaced whole or not at all: links, modes, permissions, full disks."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint.replacing import replace_files


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "train.py"
    real.write_bytes(b"old")
    link = tmp_path / "train.py"
    link.symlink_to(real)
    replace_files({link: b"old"}, {link: b"new"})
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o2664])
def test_the_mode_stays(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_files({path: b"old"}, {path: b"new"})
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_a_file_that_changed_meanwhile_is_left_alone_and_all_others_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_bytes(b"a")
    second.write_bytes(b"typed since")
    with pytest.raises(DdpdoctorError, match=r"b\.py: changed while it was being repaired"):
        replace_files({first: b"a", second: b"b"}, {first: b"A", second: b"B"})
    assert first.read_bytes() == b"a"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    with pytest.raises(DdpdoctorError, match=r"train\.py: cannot be written: No such file"):
        replace_files({path: b"a"}, {path: b"A"})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may write to; pytest's own are for one alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without rights")
def test_a_file_that_may_not_be_written_is_left_alone(open_folder: Path) -> None:
    path = open_folder / "train.py"
    path.write_bytes(b"old")
    os.seteuid(65534)
    try:
        with pytest.raises(
            DdpdoctorError, match=r"train\.py: cannot be written: Permission denied"
        ):
            replace_files({path: b"old"}, {path: b"new"})
    finally:
        os.seteuid(0)
    assert path.read_bytes() == b"old"
    assert os.listdir(open_folder) == ["train.py"]


def _largest_file_is_64_bytes() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def test_a_full_disk_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    small, large = tmp_path / "a.py", tmp_path / "b.py"
    small.write_bytes(b"a")
    large.write_bytes(b"b")
    code = f"""
from pathlib import Path
from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint.replacing import replace_files
small, large = Path({str(small)!r}), Path({str(large)!r})
try:
    replace_files({{small: b"a", large: b"b"}}, {{small: b"A", large: b"B" * 100}})
except DdpdoctorError as error:
    print(error, end="")
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=_largest_file_is_64_bytes,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == f"{large}: cannot be written: File too large"
    assert (small.read_bytes(), large.read_bytes()) == (b"a", b"b")
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]
