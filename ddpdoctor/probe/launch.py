"""Starts the user's program, under torchrun or by itself, and ends all of it with certainty."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.probe.folder import ENVIRONMENT
from ddpdoctor.probe.logs import Logs
from ddpdoctor.virtual import environment

_HERE = Path(__file__).parent
_AGENT = "ddpdoctor.probe.agent:install"
_TERMINATION_SECONDS = 5.0  # from SIGTERM to SIGKILL
_RENDEZVOUS_SECONDS = 86400  # the probe's own timeout ends it before
_KILL_SECONDS = 10.0  # a process in an uninterruptible call may take its time to die


@dataclass(frozen=True)
class Job:
    """What to run. command: script and arguments (a program of its own where launcher is "none"
    and it is no Python file). nproc: ranks on this node; virtual: how many virtual GPUs, 0 for the
    real ones. nnodes, node_rank, rendezvous ("host:port"): torchrun's, for several nodes.
    python_path: folders to import from before all others.
    """

    command: tuple[str, ...]
    nproc: int
    virtual: int
    launcher: str = "torchrun"
    folder: Path | None = None
    nnodes: int = 1
    node_rank: int = 0
    rendezvous: str | None = None
    python_path: tuple[str, ...] = ()

    def rank_log(self, local_rank: int) -> str:
        """The name of a rank's log without ".out" or ".err"; LOCAL_RANK, so known beforehand."""
        return f"rank-{local_rank}" if self.nnodes == 1 else f"local-rank-{local_rank}"


class Launch:
    """A job that runs below a guardian. Use as a context manager: leaving it ends everything."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.logs = Logs(folder)
        self.pid: int | None = None  # of torchrun, or of the program
        self.returncode: int | None = None
        self.left: int | None = None  # processes that outlived it and had to be stopped
        self._folder = folder
        self._status = b""
        command = _command(job, folder)
        control, self._control = os.pipe()
        self._status_read, status = os.pipe()
        os.set_blocking(self._status_read, False)
        streams = {}
        for name in ("launcher.out", "launcher.err"):
            reading, streams[name] = os.pipe()
            self.logs.add(name, reading)
        if job.launcher == "torchrun":
            for number in range(job.nproc):
                for name in ("out", "err"):
                    # Opened for both, so that a rank never waits for us and we see no early end.
                    pipe = os.open(folder / f"{name}-{number}", os.O_RDWR | os.O_CLOEXEC)
                    self.logs.add(f"{job.rank_log(number)}.{name}", pipe)
        self._guardian = subprocess.Popen(
            [sys.executable, "-S", _HERE / "guardian.py", str(control), str(status), *command],
            cwd=job.folder,
            env=_environment(job, folder),
            stdin=subprocess.DEVNULL,
            stdout=streams["launcher.out"],
            stderr=streams["launcher.err"],
            pass_fds=(control, status),
            start_new_session=True,
        )
        for descriptor in (control, status, *streams.values()):
            os.close(descriptor)
        self.logs.start()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(hurry=lambda: True)
        self.logs.close()
        os.close(self._status_read)

    @property
    def guardian(self) -> int:
        """Pid of the process that everything of this job is below."""
        return self._guardian.pid

    def poll(self) -> bool:
        """Whether the program runs. Raises DdpdoctorError where it could not be started."""
        while True:
            try:
                chunk = os.read(self._status_read, 4096)
            except BlockingIOError:
                break
            if not chunk:
                break
            self._status += chunk
        *lines, self._status = self._status.split(b"\n")
        for line in lines:
            word, _, value = line.decode("utf-8", "replace").partition(" ")
            if word == "failed":
                raise DdpdoctorError(f"the program could not be started: {value}")
            if word == "started":
                self.pid = int(value)
            elif word == "ended":
                self.returncode = int(value)
            elif word == "left":
                self.left = int(value)
        return self.returncode is None and self._guardian.poll() is None

    def terminate(self) -> None:
        """SIGTERM to every process of the job."""
        try:
            os.write(self._control, b"t")
        except BrokenPipeError:
            return  # the guardian has gone, and the job with it

    def end(self, hurry: Callable[[], bool]) -> None:
        """Return when no process of the job is left: SIGTERM, then or in a hurry SIGKILL."""
        if self.poll() and not hurry():
            self.terminate()
        deadline = time.monotonic() + _TERMINATION_SECONDS
        while self._guardian.poll() is None and time.monotonic() < deadline and not hurry():
            time.sleep(0.02)
        if self._control >= 0:
            os.close(self._control)  # end of file: the guardian kills what there is, and goes
            self._control = -1
        try:
            self._guardian.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            return  # reported as processes left: self.left stays None
        self.poll()
        if self.left is None:
            self._end_marked()

    def _end_marked(self) -> None:
        """The guardian was killed: end what has this run's folder in its environment."""
        marker = f"{ENVIRONMENT}={self._folder}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue  # another user's, or it ended meanwhile


def _command(job: Job, folder: Path) -> list[str]:
    """What the guardian runs; makes the ranks' pipes where there are any."""
    python = [sys.executable, "-u"] if job.command[0].endswith(".py") else []
    if job.launcher == "none":
        return [*python, *job.command]
    for number in range(job.nproc):
        for name in ("out", "err"):
            os.mkfifo(folder / f"{name}-{number}", 0o600)
    nodes = ["--standalone", "--nnodes=1"]
    if job.nnodes > 1:
        nodes = [
            f"--nnodes={job.nnodes}",
            f"--node-rank={job.node_rank}",
            "--rdzv-backend=static",  # c10d would number the nodes as they come
            f"--rdzv-endpoint={job.rendezvous}",
            f"--rdzv-conf=timeout={_RENDEZVOUS_SECONDS}",
        ]
    start = [sys.executable, "-S", str(_HERE / "rank_start.py"), str(folder)]
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *(*nodes, f"--nproc-per-node={job.nproc}", f"--log-dir={folder / 'torchrun'}"),
        "--no-python",
        *(*start, *python, *job.command),
    ]


def _environment(job: Job, folder: Path) -> dict[str, str]:
    variables = environment(
        job.virtual,
        ledger=folder / "ledger" if job.virtual else None,
        hooks=(_AGENT,),
        base={**os.environ, ENVIRONMENT: str(folder)},
    )
    if job.python_path:
        paths = (*job.python_path, *variables["PYTHONPATH"].split(os.pathsep))
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    # torchrun would warn that it sets it to 1; for a program that starts its ranks itself the
    # default, a thread a core in each rank, is slow on virtual GPUs.
    variables.setdefault("OMP_NUM_THREADS", "1")
    if job.virtual and job.nnodes > 1:
        # Two nodes may be this one machine, on which each of them has virtual GPUs of its own.
        variables.setdefault("NCCL_HOSTID", f"node-{job.node_rank}")
    return variables
