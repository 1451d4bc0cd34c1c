"""How deeply a file nests, found out before it is parsed.

libcst's native parser recurses on the C stack and takes time that grows with the square of the
depth: 3,000 nested brackets crash it, 3,000 calls in one chain take it half a minute. CPython's
own parser gives up at 200 brackets and its compiler at 3,000 levels, so no program is lost.
"""

from __future__ import annotations

import re

MOST_BRACKETS = 200
MOST_LINKS = 2_000  # of one chain, such as a + b + c or a.b(c).d(e)

_TOKENS = re.compile(
    rb'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    rb"|#[^\n]*"
    rb"|\\\r?\n"
    rb"|[()\[\]{}\n;,.+\-*/%|&^@<>~]"
    rb"|\b(?:if|else|and|or|not|lambda|await)\b",
    re.DOTALL,
)


def too_deep(data: bytes) -> str | None:
    """What a file has too much of, in words, or None."""
    tokens = _TOKENS.findall(data)
    if len(tokens) <= MOST_BRACKETS:
        return None
    links = [0]  # so far in the expression at each depth
    for token in tokens:
        if token in b"([{":
            links[-1] += 1
            links.append(0)
            if len(links) > MOST_BRACKETS:
                return f"nests deeper than {MOST_BRACKETS} brackets"
        elif token in b")]}":
            if len(links) > 1:
                links.pop()
        elif token in b",;" or (token == b"\n" and len(links) == 1):
            links[-1] = 0
        elif token[:1] not in b"\"'#\\\n":
            links[-1] += 1
        else:
            continue
        if links[-1] > MOST_LINKS:
            return f"has an expression of more than {MOST_LINKS} operators"
    return None
