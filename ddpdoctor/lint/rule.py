"""What a rule is: a function from a trace to drafts of findings, in a file of its own.

A draft speaks of nodes; rows, columns and file names are added when it becomes a finding.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ddpdoctor.findings import Severity
from ddpdoctor.lint.trace import Trace
from ddpdoctor.lint.values import Place

if TYPE_CHECKING:
    from ddpdoctor.lint.repairs import Repair


@dataclass(frozen=True)
class Draft:
    """A finding before it has rows and columns; the texts are those of findings.Finding."""

    code: str
    place: Place
    message: str
    severity: Severity = Severity.ERROR
    behaviour: str = ""
    symptom: str = ""
    repair: str = ""
    related: tuple[tuple[Place, str], ...] = ()
    fix: Repair | None = None


Rule = Callable[[Trace], Iterator[Draft]]


@cache
def all_codes() -> list[str]:
    """The code of every rule in ddpdoctor.lint.rules, without importing the rules."""
    return list(map(_code, _modules()))


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code: the `check` of each module in ddpdoctor.lint.rules."""
    return {
        _code(name): importlib.import_module(f"ddpdoctor.lint.rules.{name}").check
        for name in _modules()
    }


def _modules() -> list[str]:
    from ddpdoctor.lint import rules

    names = (info.name for info in pkgutil.iter_modules(rules.__path__))
    return sorted(name for name in names if name.startswith("ddp"))


def _code(module: str) -> str:
    return module.partition("_")[0].upper()
