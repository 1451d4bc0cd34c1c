"""Writes the README's table of rules from the pages in rules/; --check only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from ddpdoctor.catalogue import GROUPS, rules

README = Path(__file__).resolve().parent.parent / "README.md"
START = "<!-- rules: written by `make docs` -->\n"
END = "<!-- end of rules -->\n"


def main() -> int:
    before, rest = README.read_text(encoding="utf-8").split(START)
    after = rest.split(END)[1]
    text = before + START + table() + END + after
    if text == README.read_text(encoding="utf-8"):
        return 0
    if "--check" in sys.argv:
        print("README.md's table of rules is out of date; `make docs` writes it", file=sys.stderr)
        return 1
    README.write_text(text, encoding="utf-8")
    return 0


def table() -> str:
    lines = ["| rule | what | severity | fix |", "|---|---|---|---|"]
    group = ""
    for rule in rules().values():
        if rule.code[:4] != group:
            group = rule.code[:4]
            lines.append(f"| **{group}xx** | **{GROUPS[group]}** | | |")
        link = f"[{rule.code}](rules/{rule.code}-{rule.name}.md)"
        fix = "" if rule.fix == "none" else rule.fix
        lines.append(f"| {link} | {rule.summary} | {rule.severity.value} | {fix} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
