"""The run folder belongs to the user alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.probe.folder import new_run_folder


def _below(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


def test_nobody_else_can_enter_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _below(monkeypatch, tmp_path)
    made = new_run_folder()
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.stat().st_uid == os.geteuid()


def test_a_folder_where_others_could_swap_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    _below(monkeypatch, tmp_path)
    with pytest.raises(DdpdoctorError, match="can be changed by other users"):
        new_run_folder()


def test_the_sticky_bit_makes_a_shared_folder_safe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o1777)
    _below(monkeypatch, tmp_path)
    assert new_run_folder().parent == tmp_path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    _below(monkeypatch, tmp_path)
    with pytest.raises(DdpdoctorError, match="can be changed by other users"):
        new_run_folder()


def test_a_folder_that_cannot_be_written_gives_one_clear_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _below(monkeypatch, Path("/proc"))
    with pytest.raises(DdpdoctorError, match="no run folder can be made in /proc"):
        new_run_folder()
