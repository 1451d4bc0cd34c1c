"""Writes files whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError


def replace_files(before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> None:
    """Puts new contents in the place of files, each in one step, links followed and modes kept.

    before: what the new contents were made from. Raises DdpdoctorError, before any file is
    replaced, where one cannot be written or is no longer what it was.
    """
    staged: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, data in after.items():
            target = Path(os.path.realpath(path))
            if target.read_bytes() != before[path]:
                raise DdpdoctorError(f"{path}: changed while it was being repaired; run again")
            staged.append((_written_beside(target, data), target))
        while staged:
            temporary, path = staged[0]
            os.replace(temporary, path)
            staged.pop(0)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DdpdoctorError(f"{path}: cannot be written: {reason}") from None
    finally:
        for temporary, _ in staged:
            os.unlink(temporary)


def _written_beside(target: Path, data: bytes) -> str:
    """A new file in the target's folder, with its mode and owner, safely on the disk."""
    # A rename asks for the folder's permission alone: ask for the file's own as well.
    with open(target, "r+b") as file:
        status = os.fstat(file.fileno())
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if os.stat(name).st_uid != status.st_uid or os.stat(name).st_gid != status.st_gid:
            os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, stat.S_IMODE(status.st_mode))
    except BaseException:
        os.unlink(name)
        raise
    return name
