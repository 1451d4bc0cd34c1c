"""Stands between torchrun and a rank's Python: gives the rank its own log pipes, then becomes it.

Run by path, with the standard library alone: rank_start.py PIPES_FOLDER COMMAND...
The pipes are named out-N and err-N, where N is the local rank. torchrun's own
redirection writes plain files, which a program that prints without end would fill the disk with.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from guardian import die_with_parent  # type: ignore[import-not-found]


def start(pipes: str, command: list[str]) -> None:
    die_with_parent()  # torchrun may be killed: its ranks must not outlive it
    number = os.environ["LOCAL_RANK"]
    for name, target in (("out", 1), ("err", 2)):
        os.dup2(os.open(os.path.join(pipes, f"{name}-{number}"), os.O_WRONLY), target)
    os.execv(command[0], command)


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2:])
