"""A job on several nodes: each node watches its own, and the first one gets every node's run."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ddpdoctor.findings import DdpdoctorError, Finding, Severity
from ddpdoctor.probe import wire
from ddpdoctor.probe.hang import gathered, hang_finding
from ddpdoctor.probe.results import ProbeRun

_PATIENCE_SECONDS = 30.0  # for a node whose run ended a little later
_MOST_BYTES = 64 * 2**20
_SLURM_BASE_PORT = 20000


def slurm_nodes(environ: Mapping[str, str]) -> tuple[int, int, str] | None:
    """(nodes, this node's rank, rendezvous) inside an srun step of several nodes, else None.

    Raises DdpdoctorError where the step runs more than one task a node: probe starts the ranks.
    """
    nodes = int(environ.get("SLURM_STEP_NUM_NODES", "1"))
    if nodes < 2:
        return None
    if int(environ.get("SLURM_STEP_NUM_TASKS", nodes)) != nodes:
        raise DdpdoctorError(
            "probe starts the ranks of a node itself: srun it with --ntasks-per-node=1"
        )
    host = _first_host(environ["SLURM_STEP_NODELIST"])
    port = _SLURM_BASE_PORT + int(environ["SLURM_JOB_ID"]) % 10000
    return nodes, int(environ["SLURM_NODEID"]), f"{host}:{port}"


def endpoint(rendezvous: str | None, nnodes: int, node_rank: int) -> tuple[str, int]:
    """Host and port of --rdzv-endpoint. Raises DdpdoctorError for what makes no job."""
    if not 0 <= node_rank < nnodes:
        raise DdpdoctorError(
            f"--node-rank {node_rank}: with --nnodes {nnodes} it is 0 to {nnodes - 1}"
        )
    host, _, port = (rendezvous or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65535:
        raise DdpdoctorError(
            "several nodes need --rdzv-endpoint HOST:PORT, the first node and a free port there "
            "(the next port takes the nodes' reports)"
        )
    return host.strip("[]"), int(port)


class Collector:
    """On the first node: takes the other nodes' runs, on the port after the rendezvous'."""

    def __init__(self, host: str, port: int) -> None:
        try:
            family = socket.getaddrinfo(host, port + 1, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((host, port + 1), family=family)
        except OSError as error:
            raise DdpdoctorError(
                f"{host}:{port + 1}, where the nodes' reports arrive, cannot be opened: "
                f"{error.strerror or error}"
            ) from error

    def collect(self, nnodes: int) -> dict[int, ProbeRun]:
        """By node rank; a node that is late is waited for, one that never comes is left out."""
        runs: dict[int, ProbeRun] = {}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(runs) < nnodes - 1 and (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                break
            with connection:
                connection.settimeout(_PATIENCE_SECONDS)
                try:
                    node, packed = _receive(connection)
                    runs[node] = wire.decode(packed)
                except (OSError, ValueError, TypeError, KeyError):
                    continue  # a port scanner, or a node of another version: no report of this job
        return dict(sorted(runs.items()))

    def close(self) -> None:
        self._socket.close()


def send(host: str, port: int, node_rank: int, run: ProbeRun) -> None:
    """Hand this node's run to the first node; DdpdoctorError where that cannot be reached."""
    try:
        with socket.create_connection((host, port + 1), timeout=_PATIENCE_SECONDS) as connection:
            connection.sendall(f"{node_rank}\n".encode() + wire.encode(run))
    except OSError as error:
        raise DdpdoctorError(
            f"the first node does not take this node's report at {host}:{port + 1}: "
            f"{error.strerror or error}; the logs are in {run.run_folder}"
        ) from error


def of_all(runs: Sequence[ProbeRun]) -> ProbeRun:
    """The first node's run with what only all nodes together show: which rank of all is the odd
    one in a hang, and DDP506 where the nodes differ in ranks or GPUs.
    """
    return _compared([_hung_together(runs), *runs[1:]])


def _hung_together(runs: Sequence[ProbeRun]) -> ProbeRun:
    first = runs[0]
    if not all(run.stacks for run in runs):
        return first
    groups = gathered(group for run in runs for group in run.stacks)
    each = [[one for one in run.findings if one.code == "DDP504"] for run in runs]
    last = " ".join(one.behaviour for found in each for one in found)
    hang = hang_finding(groups, first.idle, last, lambda: ())
    others = tuple(one for one in first.findings if one.code != "DDP504")
    related = tuple(place for found in each for one in found for place in one.related)
    return replace(first, stacks=groups, findings=(*others, replace(hang, related=related)))


def _compared(runs: Sequence[ProbeRun]) -> ProbeRun:
    counts = [(len(run.placement.ranks), len(run.placement.gpus)) for run in runs]
    if len(set(counts)) == 1:
        return runs[0]
    told = "; ".join(
        f"node {node}: {ranks} ranks on {gpus} GPUs" for node, (ranks, gpus) in enumerate(counts)
    )
    finding = Finding(
        code="DDP506",
        severity=Severity.WARNING,
        message=f"The nodes differ: {told}.",
        behaviour="A local index computed as rank % device_count, or a rank as node * ranks per "
        "node, is then wrong on some of them.",
        symptom="two ranks on one GPU, or an invalid device ordinal, on one node only.",
        repair="take the index from LOCAL_RANK, which torchrun counts on each node by itself",
    )
    return replace(runs[0], findings=(*runs[0].findings, finding))


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    packed = b""
    while chunk := connection.recv(2**16):
        packed += chunk
        if len(packed) > _MOST_BYTES:
            raise ValueError("too long for a report")
    node, _, body = packed.partition(b"\n")
    return int(node), body


def _first_host(nodes: str) -> str:
    """The first of SLURM's list: "gpu[03-05,09]" is gpu03."""
    first = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\])?([^,]*)", nodes)
    if first is None:
        raise DdpdoctorError(f"SLURM_STEP_NODELIST={nodes} names no node")
    return f"{first[1]}{first[2] or ''}{first[3]}"
