"""Runs inside each process of the user's program, and records what the probe wants to know.

`install` is called right after `import torch` (ddpdoctor.virtual.environment's hooks). Nothing
here may change what the program does: a fact that cannot be had is left out.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

from ddpdoctor.probe.folder import ENVIRONMENT
from ddpdoctor.probe.progress import ProgressWriter
from ddpdoctor.probe.records import Recorder

# A real-time signal that neither PyTorch, NCCL, SLURM nor Lightning uses. Only sent to a process
# that wrote its "process" record: elsewhere its default action ends the process.
STACK_SIGNAL = signal.SIGRTMIN + 8

_RANK_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ROLE_RANK",
)


def install() -> None:
    """Start recording in this process; does nothing outside of a probe, or without disk space."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        return
    recorder = Recorder(folder)
    try:
        progress = ProgressWriter(recorder.path("state"))
    except OSError:
        return
    from ddpdoctor.probe.agent import collectives, contexts, failures, mismatches, silent, training

    announce(recorder)
    failures.install(recorder)
    mismatches.install(recorder)
    contexts.install(recorder)
    collectives.install(recorder, progress)
    training.install(recorder, progress)
    silent.install(recorder)

    def appear() -> None:
        try:
            progress.move_to(recorder.path("state"))
        except OSError:
            return
        announce(recorder)

    def in_child() -> None:
        # Data loading workers come and go by the thousand: a forked process is seen only once it
        # does something that counts, such as opening a process group or a GPU.
        progress.leave_file()
        recorder.before_first = appear

    os.register_at_fork(after_in_child=in_child)


def announce(recorder: Recorder) -> None:
    """Who this process is, and that its stacks can be asked for."""
    try:
        stacks = open(recorder.path("stacks"), "w")  # noqa: SIM115 - faulthandler keeps it
    except OSError:
        return
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
    if not faulthandler.is_enabled():
        faulthandler.enable(stacks)  # a crash in C leaves its Python line
    recorder.write(
        "process",
        parent=os.getppid(),
        nspids=_nspids(),
        main_thread=threading.main_thread().ident,
        argv=sys.orig_argv,
        environment=rank_variables(),
    )


def rank_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in _RANK_VARIABLES if name in os.environ}


def _nspids() -> list[int]:
    """This process's ids in the pid namespaces it is in, outermost first."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("NSpid:"):
                return [int(pid) for pid in line.split()[1:]]
    return []
