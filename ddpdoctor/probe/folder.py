"""The run folder: where the ranks' agents write, and where the raw logs stay."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError

ENVIRONMENT = "DDPDOCTOR_RUN"  # names the run folder to the agents


def new_run_folder() -> Path:
    """A fresh folder that only this user can enter, below TMPDIR.

    Raises DdpdoctorError where none can be made, or where another user could swap it for theirs.
    """
    above = Path(tempfile.gettempdir())
    found = above.stat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    if shared or found.st_uid not in (0, os.geteuid()):
        raise DdpdoctorError(
            f"{above} can be changed by other users; set TMPDIR to a folder of your own"
        )
    try:
        return Path(tempfile.mkdtemp(prefix="ddpdoctor-"))
    except OSError as error:
        raise DdpdoctorError(f"no run folder can be made in {above}: {error.strerror}") from error
