"""Nothing that the guardian starts outlives it, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ddpdoctor.probe.guardian

_GUARDIAN = ddpdoctor.probe.guardian.__file__

# Leaves a daemon, in a session of its own and orphaned, and a plain child.
_DAEMONISES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", flush=True)
        time.sleep(600)
    os._exit(0)
if os.fork() == 0:
    time.sleep(600)
time.sleep(float(sys.argv[1]))
sys.exit(3)
"""


class _Guarded:
    """A command under the guardian; marker is in the environment of all of it."""

    def __init__(self, marker: Path, *arguments: str) -> None:
        control, self.control = os.pipe()
        self.status, status = os.pipe()
        self.guardian = subprocess.Popen(
            [
                *(sys.executable, "-S", _GUARDIAN, str(control), str(status)),
                *(sys.executable, "-S", "-c", *arguments),
            ],
            pass_fds=(control, status),
            stdout=subprocess.PIPE,
            env={**os.environ, "MARKER": str(marker)},
            start_new_session=True,
        )
        os.close(control)
        os.close(status)

    def report(self) -> list[str]:
        """What it said until it ended."""
        assert self.guardian.wait(timeout=60) == 0
        with os.fdopen(self.status) as said:
            return said.read().splitlines()


def test_a_daemon_is_ended_after_the_command_and_counted(
    tmp_path: Path, left_behind: Callable[[Path], list[str]]
) -> None:
    guarded = _Guarded(tmp_path, _DAEMONISES, "0.2")
    _, ended, left = guarded.report()
    assert (ended, left) == ("ended 3", "left 2")
    assert left_behind(tmp_path) == []


def test_a_killed_probe_takes_everything_with_it(
    tmp_path: Path, left_behind: Callable[[Path], list[str]]
) -> None:
    guarded = _Guarded(tmp_path, _DAEMONISES, "600")
    assert guarded.guardian.stdout is not None
    assert guarded.guardian.stdout.readline() == b"daemon\n"
    os.close(guarded.control)  # what the kernel does with a killed probe's end of the pipe
    guarded.report()
    assert left_behind(tmp_path) == []


def test_a_command_that_ignores_sigterm_is_ended_by_kill(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    )
    guarded = _Guarded(tmp_path, code)
    assert guarded.guardian.stdout is not None
    guarded.guardian.stdout.readline()
    os.write(guarded.control, b"t")
    time.sleep(0.3)
    assert guarded.guardian.poll() is None
    os.close(guarded.control)
    assert f"ended {-signal.SIGKILL}" in guarded.report()


def test_the_command_meets_its_signals_as_usual(tmp_path: Path) -> None:
    code = "import signal; print(signal.getsignal(2), signal.getsignal(15) == signal.SIG_DFL)"
    guarded = _Guarded(tmp_path, code)
    assert guarded.guardian.stdout is not None
    said = guarded.guardian.stdout.readline().decode()
    assert "default_int_handler" in said
    assert said.endswith("True\n")
    guarded.report()


def test_a_command_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    control, end = os.pipe()
    reading, status = os.pipe()
    command = [sys.executable, "-S", _GUARDIAN, str(control), str(status), "/nowhere/program"]
    subprocess.run(command, pass_fds=(control, status), check=True, timeout=60)
    assert os.read(reading, 1000) == b"failed No such file or directory: /nowhere/program\n"
    for descriptor in (control, end, reading, status):
        os.close(descriptor)
