"""Whether a program wants torchrun, or starts its ranks itself."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

# Calls by which a program starts its own ranks; a framework that can do both (Lightning,
# accelerate, transformers) finds torchrun's variables and uses them.
_STARTERS = {"spawn", "start_processes", "notebook_launcher", "Process", "launch"}


def launcher_of(command: Sequence[str]) -> str:
    """ "torchrun", or "none" for a program that starts its ranks itself, or is no Python file."""
    if not command:
        return "torchrun"
    if not command[0].endswith(".py"):
        return "none"
    try:
        tree = ast.parse(Path(command[0]).read_bytes())
    except (SyntaxError, ValueError):  # the run will say it, with Python's own words
        return "torchrun"
    called = {_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return "none" if called & _STARTERS else "torchrun"


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
