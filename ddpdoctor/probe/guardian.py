"""Starts one command and makes sure that nothing of it outlives the probe.

Run as a program of its own, by path and with the standard library alone:

    guardian.py CONTROL_FD STATUS_FD COMMAND...

It is the subreaper of everything the command starts, so that a process that daemonises itself
stays below it in the process tree and can be found. A letter on CONTROL_FD means SIGTERM to
everything; its end of file means SIGKILL, whether the probe closed it or was killed. It writes
lines to STATUS_FD: "started PID", "ended RETURNCODE" (as subprocess has it: -N for signal N),
"left COUNT" (processes that had to be stopped after that), or "failed TEXT" where the command
could not be started.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36

# What a program's end leaves for a moment on its own: multiprocessing's resource tracker and
# fork server notice the closed pipe and go.
_GRACE_SECONDS = 2.0


def guard(command: Sequence[str], control: int, status: int) -> None:
    """Run the command to its end, obey CONTROL_FD on the way, and leave no descendant."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    me = os.getpid()
    try:
        child = subprocess.Popen(
            command, start_new_session=True, preexec_fn=lambda: _die_with(me), close_fds=True
        )
    except OSError as error:
        _tell(status, f"failed {error.strerror}: {error.filename}")
        return
    _tell(status, f"started {child.pid}")
    asked = False
    while child.poll() is None:
        if number := _asked(control, 0.05):
            asked = True
            _signal_all(number)
        _reap(child)
    _tell(status, f"ended {child.returncode}")
    _tell(status, f"left {_clear(control, 0 if asked else _GRACE_SECONDS)}")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; kept across exec, not across fork."""
    _die_with(os.getppid())


def prctl(option: int, argument: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Pids of everything below root in the process tree, zombies left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (entry := _parent_of(int(name))):
            children.setdefault(entry, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _die_with(parent: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


def _parent_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name stands in parentheses and may hold spaces and parentheses.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None  # it ended between the listing and the reading
    return None if state == b"Z" else int(parent)


def _clear(control: int, grace: float) -> int:
    """End what is left below us; the count of what did not go on its own."""
    deadline = time.monotonic() + grace
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        _reap()
        if _asked(control, 0.05):
            break
    while _signal_all(signal.SIGKILL):
        time.sleep(0.01)
        _reap()
    return len(left)


def _signal_all(number: int) -> int:
    """Send the signal to every descendant; to how many it could be sent."""
    sent = 0
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or another user's (setuid): not ours to end
        sent += 1
    return sent


def _reap(child: subprocess.Popen[bytes] | None = None) -> None:
    """Collect adopted processes that ended, but leave the command's own status to Popen."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or (child is not None and ended.si_pid == child.pid):
                return
            os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            return


def _asked(control: int, seconds: float) -> int:
    """The signal that the probe asks for in that time, 0 for none."""
    readable, _, _ = select.select([control], [], [], seconds)
    if not readable:
        return 0
    return signal.SIGTERM if os.read(control, 1) else signal.SIGKILL


def _tell(status: int, line: str) -> None:
    try:
        os.write(status, (line + "\n").encode())
    except BrokenPipeError:
        return  # the probe is gone: nobody is left to be told


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # The probe decides when the run ends. SIG_IGN would be inherited by the command.
        signal.signal(number, lambda *_: None)
    guard(sys.argv[3:], int(sys.argv[1]), int(sys.argv[2]))
