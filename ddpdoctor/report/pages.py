"""The catalogue of rules on the screen: one page, or the list."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby

from ddpdoctor.catalogue import GROUPS, Rule
from ddpdoctor.findings import Severity
from ddpdoctor.report.terminal import Screen, wrapped, write

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_FIX = {"safe": "fix", "unsafe": "unsafe fix", "none": ""}


def show_page(rule: Rule) -> None:
    """Print a rule's page: rendered on a terminal, as its Markdown where it is piped."""
    facts = f"{rule.severity.value}, found by {rule.phase}, {_FIX[rule.fix] or 'no fix'}"
    title = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\n*{facts}*\n\n"
    if not Screen.of(sys.stdout).terminal:
        write(title + rule.page, sys.stdout)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(Console().width, 100))
    # The word after "python" is ours; rich would take it as part of the language's name.
    page = rule.page.replace("```python bad", "```python").replace("```python good", "```python")
    console.print(Markdown(title + page, code_theme="ansi_dark"))


def show_list(rules: Iterable[Rule]) -> None:
    """Print the rules by group: code, severity, repair, summary."""
    screen = Screen.of(sys.stdout)
    lines = []
    for group, members in groupby(rules, key=lambda rule: rule.code[:4]):
        lines.append(screen.style(f"{group}xx {GROUPS[group]}", bold=True))
        lines += [line for rule in members for line in _entry(rule, screen)]
    lines.append("`ddpdoctor explain CODE` shows a rule's page.")
    write("\n".join(lines) + "\n", sys.stdout)


def _entry(rule: Rule, screen: Screen) -> list[str]:
    label = f"  {rule.code}  {rule.severity.value:<7}  {_FIX[rule.fix]:<10}  "
    first, *rest = wrapped(label, rule.summary, screen.columns)
    colour = screen.style(label[:17], _COLOURS[rule.severity], bold=True)
    return [colour + first[17:], *rest]
