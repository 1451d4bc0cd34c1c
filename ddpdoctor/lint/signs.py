"""What the bytes of a file say about it before it is parsed: a script, or the start of a job."""

from __future__ import annotations

import re

from ddpdoctor.lint.apis import Apis

# Calls that make a program a job of several ranks, in the words of rules/apis.
_OPENING = frozenset({"group", "framework", "command_line", "wrap", "shard", "mesh", "spawn"})

# Without a main guard: a loop, a block or a call that is a statement at the top level. Modules
# that are only imported have definitions and assignments there, now and then a call.
_FLAT = re.compile(
    rb"\n(?:(?:for|while|with)\b|(?!(?:if|elif|assert|del|print|except|return)\b)[A-Za-z_][\w.]*\()"
)
_MADE = re.compile(rb"\n[A-Za-z_][\w., ]*=[ ]*([\w.]+)\(")


class Signs:
    """The signs by which the calls in the tables are known."""

    def __init__(self, apis: Apis) -> None:
        self._names: dict[bytes, set[bytes]] = {}  # of calls, by the library's leading name
        for name, api in apis.calls.items():
            top, _, rest = name.partition(".")
            if api.does not in _OPENING or top == "*" or not rest:
                continue
            for known in {name, *_other_names(apis, name)}:
                library, last = known.partition(".")[0], known.rpartition(".")[2]
                self._names.setdefault(library.encode(), set()).add(last.encode())
        self._calls = frozenset().union(*self._names.values())
        self._patterns = {
            library: re.compile(rb"\b(?:" + b"|".join(map(re.escape, sorted(names))) + rb")\b")
            for library, names in self._names.items()
        }

    def opens_group(self, data: bytes) -> bool:
        """Whether a file may start a job of several ranks: it names a library and such a call."""
        return any(
            library in data and pattern.search(data) is not None
            for library, pattern in self._patterns.items()
        )

    def runs(self, data: bytes) -> bool:
        """Whether a file does something when it is run as a script."""
        if b"__main__" in data:
            return True
        lines = b"\n" + data  # a search for a newline is many times faster than one for ^
        return _FLAT.search(lines) is not None or any(
            callee.rpartition(b".")[2] in self._calls for callee in _MADE.findall(lines)
        )


def _other_names(apis: Apis, name: str) -> set[str]:
    """The names under which a call is reached by way of aliases, which may end in another word."""
    return {
        alias + name[len(target) :]
        for alias, target in apis.aliases.items()
        if name == target or name.startswith(target + ".")
    }
