"""Which files are the user's program: the one decision behind every "first line" that is shown."""

from __future__ import annotations

import functools
import os
import sysconfig

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = tuple(
    folder + os.sep
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if folder
)


@functools.cache
def is_user_file(filename: str) -> bool:
    """A file of the program: not torch's, another installed library's, Python's or ours."""
    file = os.path.abspath(filename)
    return (
        not filename.startswith("<")
        and not file.startswith(_STANDARD)
        and not any(folder in file for folder in _LIBRARY_FOLDERS)
        and not is_own_file(filename)
    )


def is_own_file(filename: str) -> bool:
    """A file of ddpdoctor, wherever it lies: installed, or in a checkout that is on the path."""
    return os.path.abspath(filename).startswith(_PACKAGE)
