"""Judges programs in several processes.

Each is a fresh interpreter that reads scripts' paths from its standard input and answers each
with an outcome, so this works the same wherever the caller stands (no fork, and no module of the
caller's is imported again), and a worker whose parent is gone ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from ddpdoctor.lint import apis
from ddpdoctor.lint.deep_stack import with_deep_stack
from ddpdoctor.lint.judging import Job, Judge, internal_error
from ddpdoctor.lint.outcome import Outcome


def judge_in_processes(job: Job, scripts: Sequence[Path], count: int) -> dict[Path, Outcome]:
    """The outcome of each script. count: how many processes to start."""
    waiting = list(reversed(scripts))
    outcomes: dict[Path, Outcome] = {}
    workers = [_Worker(job) for _ in range(count)]

    def serve(worker: _Worker) -> None:
        while True:
            try:
                script = waiting.pop()
            except IndexError:
                return
            outcomes[script] = worker.judge(script)

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.end()
    return outcomes


class _Worker:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None

    def judge(self, script: Path) -> Outcome:
        try:
            process = self._process or self._start()
            outcome: Outcome = _ask(process, script)
            return outcome
        except (OSError, EOFError, pickle.UnpicklingError):
            code = self.end(_TIME_TO_END)
            return internal_error(f"its process ended with exit code {code}")

    def _start(self) -> subprocess.Popen[bytes]:
        # Not `-m`: that looks for modules in the current folder first, among the user's files.
        code = f"import sys; sys.path[:] = {sys.path!r}; import {__name__} as w; w.serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        _send(_pipe(self._process.stdin), self._job)
        return self._process

    def end(self, patience: float = 0.0) -> int | None:
        """Ends the process, at the latest after so many seconds; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what was not sent is lost, as it should be
                    _pipe(pipe).close()


_TIME_TO_END = 5.0


def _ask(process: subprocess.Popen[bytes], script: Path) -> Any:
    _send(_pipe(process.stdin), script)
    return pickle.load(_pipe(process.stdout))


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # all of ours are pipes
    return stream


def _send(stream: IO[bytes], message: object) -> None:
    pickle.dump(message, stream)
    stream.flush()


def serve() -> None:
    """The worker's side: answers until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else gets among the answers
    job: Job = pickle.load(sys.stdin.buffer)
    judge = Judge(job, apis.load(job.tables))

    def answer() -> None:
        while True:
            try:
                script = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                _send(answers, judge(script))
            except BrokenPipeError:  # the parent is gone
                return

    with_deep_stack(answer)
