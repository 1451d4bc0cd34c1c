"""What an agent writes about its process, and how the parent reads it: append-only JSON lines.

A process writes process-PID.jsonl in the run folder, an object a line, each with "kind", "at"
(seconds since the epoch) and that kind's facts. A line that a crash or a full disk cut short is
left out when reading.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Recorder:
    """Appends this process's records; after a fork the child's go to a file of its own.

    before_first: called once, before the next record is written.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.before_first: Callable[[], None] | None = None

    def path(self, suffix: str) -> str:
        return os.path.join(self.folder, f"process-{os.getpid()}.{suffix}")

    def introduce(self) -> None:
        """Call before_first, if it was not yet."""
        call, self.before_first = self.before_first, None
        if call:
            call()

    def write(self, kind: str, **facts: Any) -> None:
        self.introduce()
        line = json.dumps({"kind": kind, "at": time.time(), **facts}) + "\n"
        try:
            # Opened each time: a program that closes every descriptor, as daemons do, would
            # otherwise have our records written into one of its own files.
            file = os.open(
                self.path("jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
        except OSError:
            return  # disk full, or the folder is gone: the user's program comes first
        try:
            os.write(file, line.encode("utf-8", "backslashreplace"))
        except OSError:
            return
        finally:
            os.close(file)


@dataclass(frozen=True)
class Record:
    """One fact of a process."""

    pid: int
    kind: str
    at: float
    facts: dict[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Every whole record in the folder, by time."""
    found = []
    for path in folder.glob("process-*.jsonl"):
        pid = int(path.stem.partition("-")[2])
        for line in path.read_bytes().splitlines():
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            found.append(Record(pid, facts.pop("kind"), facts.pop("at"), facts))
    return sorted(found, key=lambda record: record.at)
