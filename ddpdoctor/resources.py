"""Finds rules/ and fixtures/: inside the installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """The folder of that name ("rules", "fixtures/article").

    A wheel carries them under ddpdoctor/_resources; an editable install reads the checkout's own.
    """
    installed = _PACKAGE / "_resources" / name
    return installed if installed.exists() else _PACKAGE.parent / name
