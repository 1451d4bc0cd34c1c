"""The raw output of every rank, kept in the run folder however much a program prints.

The beginning and the end of each stream are kept; what lies between is dropped once it exceeds
the limits, so that a program that prints without end cannot fill the disk.
"""

from __future__ import annotations

import os
import selectors
import threading
from pathlib import Path

_HEAD_BYTES = 4 * 2**20
_TAIL_BYTES = 2 * 2**20
_SUFFIX = ".log"


class Logs:
    """Reads streams in a thread of its own, so that no rank waits for a full pipe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._streams: list[_Stream] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)

    def add(self, name: str, descriptor: int) -> None:
        """Keep what comes from that descriptor, which is closed at the end, as NAME.log."""
        os.set_blocking(descriptor, False)
        stream = _Stream(self._folder / f"{name}{_SUFFIX}")
        self._streams.append(stream)
        self._selector.register(descriptor, selectors.EVENT_READ, stream)

    def start(self) -> None:
        self._thread.start()

    @property
    def bytes_read(self) -> int:
        return sum(stream.count for stream in self._streams)

    @property
    def problem(self) -> str | None:
        """Why output was lost, or None."""
        return next((stream.problem for stream in self._streams if stream.problem), None)

    def close(self) -> None:
        """Take what is still in the pipes (their writers have ended), and stop."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            while chunk := _read(key.fd):
                key.data.write(chunk)
            os.close(key.fd)
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def _read_on(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(timeout=0.1):
                chunk = _read(key.fd)
                if chunk == b"":
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                elif chunk:
                    key.data.write(chunk)


def tail(folder: Path, name: str, most_bytes: int = 200_000) -> str:
    """The end of a stream, as text."""
    parts = [folder / f"{name}{suffix}" for suffix in (_SUFFIX, ".tail-old.log", ".tail.log")]
    return b"".join(part.read_bytes() for part in parts if part.exists())[-most_bytes:].decode(
        "utf-8", "replace"
    )


def _read(descriptor: int) -> bytes | None:
    """Up to 64 KiB; b"" at the end of file, None where nothing is there now."""
    try:
        return os.read(descriptor, 2**16)
    except BlockingIOError:
        return None


class _Stream:
    """NAME.log with the first bytes; past the limit the last ones in NAME.tail(-old).log."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self.problem: str | None = None
        self._head = path
        self._tail = path.with_suffix(".tail.log")
        self._written = 0
        self._limit = _HEAD_BYTES
        self._open(path)

    def write(self, chunk: bytes) -> None:
        self.count += len(chunk)
        if self.problem:
            return
        try:
            if self._written + len(chunk) > self._limit:
                self._next_file()
            self._file.write(chunk)
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._head.name} is not whole: {error.strerror}"
            return
        self._written += len(chunk)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:  # the buffer that a full disk could not take
            self.problem = self.problem or f"{self._head.name} is not whole: {error.strerror}"

    def _next_file(self) -> None:
        self._file.close()
        if self._tail.exists():
            self._tail.replace(self._head.with_suffix(".tail-old.log"))
        self._open(self._tail)
        self._written, self._limit = 0, _TAIL_BYTES

    def _open(self, path: Path) -> None:
        self._file = open(  # noqa: SIM115 - closed in close()
            path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)
        )
