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
def all_rules() -> dict[str, Rule]:
    """Every rule by its code: the `check` of each module in ddpdoctor.lint.rules."""
    from ddpdoctor.lint import rules

    found: dict[str, Rule] = {}
    for info in sorted(pkgutil.iter_modules(rules.__path__), key=lambda info: info.name):
        if not info.name.startswith("ddp"):
            continue
        module = importlib.import_module(f"{rules.__name__}.{info.name}")
        found[info.name.partition("_")[0].upper()] = module.check
    return found
