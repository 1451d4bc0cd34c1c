"""The rules, read from the pages in rules/: one page a rule, TOML front matter and sections."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import tomli

from ddpdoctor.findings import DdpdoctorError, Severity
from ddpdoctor.resources import resource

GROUPS = {
    "DDP1": "placement",
    "DDP2": "binding",
    "DDP3": "wrapping",
    "DDP4": "collectives",
    "DDP5": "seen by probe and ps",
}


@dataclass(frozen=True)
class Rule:
    """One rule and its page.

    severity: the usual one; a finding may be surer or less sure. fix: "safe", "unsafe" or "none".
    phase: "lint" or "probe", whichever can find it first. page: the body in Markdown. bad and good:
    whole programs, "" for the rules of probe that have none.
    """

    code: str
    name: str
    severity: Severity
    fix: str
    phase: str
    summary: str
    page: str
    bad: str
    good: str


@functools.cache
def rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    folder = resource("rules")
    pages = sorted(folder.glob("DDP*.md"))
    if not pages:
        raise DdpdoctorError(f"no rule pages in {folder}; the installation is incomplete")
    return {rule.code: rule for rule in map(_read, pages)}


def _read(path: Path) -> Rule:
    try:
        _, front, body = path.read_text(encoding="utf-8").split("+++\n", 2)
        meta = tomli.loads(front)
        return Rule(
            code=meta["code"],
            name=meta["name"],
            severity=Severity(meta["severity"]),
            fix=meta["fix"],
            phase=meta["phase"],
            summary=meta["summary"],
            page=body.strip() + "\n",
            bad=_program("bad", body),
            good=_program("good", body),
        )
    except (ValueError, KeyError) as error:
        raise DdpdoctorError(f"the rule page {path} cannot be read: {error}") from error


def _program(kind: str, body: str) -> str:
    match = re.search(rf"^```python {kind}\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""
