"""The one vocabulary of lint, probe and ps: what was found, where, how sure, and the repair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class DdpdoctorError(Exception):
    """The job could not be done; the text is one line for the user (exit code 2)."""


class Severity(str, Enum):
    """How sure a finding is.

    ERROR: every run of that path misplaces. WARNING: it depends on something unseen (a second
    node, how a checkpoint was saved, which launcher is used). INFO: only worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Applicability(str, Enum):
    """SAFE edits keep the single-GPU use of the program working; UNSAFE ones may change it."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, order=True)
class Location:
    """A place in a text file; row and column count from 1, columns in characters, as in ruff."""

    row: int
    column: int

    def to_dict(self) -> dict[str, int]:
        return {"row": self.row, "column": self.column}


@dataclass(frozen=True)
class Edit:
    """Replace the text between location and end_location (exclusive) of a file by content."""

    filename: str
    location: Location
    end_location: Location
    content: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "filename": self.filename,
            "location": self.location.to_dict(),
            "end_location": self.end_location.to_dict(),
            "content": self.content,
        }


@dataclass(frozen=True)
class Fix:
    """Edits that belong together: all of them are applied, or none."""

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "applicability": self.applicability.value,
            "message": self.message,
            "edits": [edit.to_dict() for edit in self.edits],
        }


@dataclass(frozen=True)
class Related:
    """A second place that explains a finding: where a wrong value takes effect, or comes from."""

    filename: str
    location: Location
    message: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "filename": self.filename,
            "location": self.location.to_dict(),
            "message": self.message,
        }


@dataclass(frozen=True)
class Finding:
    """One cause, at the line a person would change.

    message: what is wrong, in one sentence. behaviour: what each rank does there. symptom: what
    the user sees on a real machine. repair: what to write instead, in words. ranks: the global
    ranks it was seen on (probe only; lint speaks of every rank but 0). filename, location and
    end_location are None where a runtime finding has no source line.
    """

    code: str
    message: str
    severity: Severity
    filename: str | None = None
    location: Location | None = None
    end_location: Location | None = None
    behaviour: str = ""
    symptom: str = ""
    repair: str = ""
    ranks: tuple[int, ...] = ()
    related: tuple[Related, ...] = ()
    fix: Fix | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with ruff's names where ruff has one."""
        return {
            "code": self.code,
            "message": self.message,
            "severity": self.severity.value,
            "filename": self.filename,
            "location": self.location.to_dict() if self.location else None,
            "end_location": self.end_location.to_dict() if self.end_location else None,
            "behaviour": self.behaviour,
            "symptom": self.symptom,
            "repair": self.repair,
            "ranks": list(self.ranks),
            "related": [place.to_dict() for place in self.related],
            "fix": self.fix.to_dict() if self.fix else None,
        }
