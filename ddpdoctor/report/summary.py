"""What a lint run looked at, so that silence is never mistaken for health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.findings import Applicability, Finding, Severity
from ddpdoctor.report.words import count

_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}


@dataclass(frozen=True)
class Summary:
    """files: source files parsed; programs: distributed programs found among them.

    skipped: one line a file that could not be judged (`broken.py:3: syntax error: …`).
    unfinished: programs that cost too much to be followed to their end.
    """

    files: int
    programs: int
    skipped: tuple[str, ...] = ()
    unfinished: int = 0


def closing_lines(findings: Sequence[Finding], summary: Summary) -> list[str]:
    """The last words of a lint run: what was skipped, found, looked at, and can be repaired."""
    looked_at = f"{count(summary.files, 'file')} looked at"
    lines = [f"Skipped {line}" for line in summary.skipped]
    if summary.unfinished:
        large = count(summary.unfinished, "program")
        lines.append(f"Not followed to the end: {large}, for the size; `--verbose` names them.")
    if summary.programs == 0 and not findings:
        lines.append(f"No distributed program found, so nothing was judged: {looked_at}.")
        return lines
    programs = count(summary.programs, "distributed program")
    if not findings:
        lines.append(f"No misplacement found: {looked_at}, {programs}.")
        return lines
    severities = Counter(finding.severity for finding in findings)
    *most, last = [count(severities[s], _NOUNS[s]) for s in Severity if severities[s]]
    found = f"{', '.join(most)} and {last}" if most else last
    codes = Counter(finding.code for finding in findings)
    by_rule = ", ".join(f"{code} x{number}" for code, number in sorted(codes.items()))
    lines.append(f"Found {found}: {by_rule}.")
    lines.append(f"{looked_at}, {programs}. {_repairs(findings)}".rstrip())
    return lines


def _repairs(findings: Sequence[Finding]) -> str:
    kinds = Counter(finding.fix.applicability for finding in findings if finding.fix)
    safe, unsafe = kinds[Applicability.SAFE], kinds[Applicability.UNSAFE]
    ways = []
    if safe:
        ways.append(f"`--fix` repairs {safe}")
    if unsafe:
        ways.append(f"`--fix --unsafe-fixes` repairs {safe + unsafe}")
    if not ways:
        return ""
    return f"{' and '.join(ways)} of {len(findings)}; `--diff` shows the edits."
