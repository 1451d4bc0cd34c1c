"""Counts the collectives of this process, and says which one it is in.

Wrapped in Python, where the program calls them; the gradients' all-reduce, which DDP starts from
C++ inside of backward, is seen as backward itself (see training.py).
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ddpdoctor.probe.progress import ProgressWriter
from ddpdoctor.probe.records import Recorder

DEFAULT_GROUP = "the default group"
RENDEZVOUS = "the rendezvous"

_COLLECTIVES = (
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "new_group",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
)


def install(recorder: Recorder, progress: ProgressWriter) -> None:
    if not dist.is_available():
        return
    sequence: Counter[str] = Counter()  # by group
    depth = [0]  # all_gather_object calls all_gather: the outer one is what the program wrote

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(function).parameters)
        position = names.index("group") if "group" in names else None

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if depth[0]:
                return function(*args, **kwargs)
            group = kwargs.get("group")
            if group is None and position is not None and position < len(args):
                group = args[position]
            name = _group_name(group) if dist.is_initialized() else RENDEZVOUS
            if name not in sequence and isinstance(group, dist.ProcessGroup):
                members = dist.get_process_group_ranks(group)
                recorder.write("subgroup", name=name, ranks=members)
            sequence[name] += 1
            depth[0] += 1
            progress.enter(function.__name__, sequence[name], name)
            try:
                result = function(*args, **kwargs)
            except BaseException:
                depth[0] -= 1
                raise  # the last operation stays marked as entered: it is what failed
            depth[0] -= 1
            progress.leave()
            return result

        return counted

    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            wrapped = wrap(getattr(c10d, name))
            setattr(c10d, name, wrapped)
            setattr(dist, name, wrapped)

    opened = wrap(dist.init_process_group)

    @functools.wraps(opened)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        from ddpdoctor.probe.agent import rank_variables

        result = opened(*args, **kwargs)
        recorder.write(
            "group",
            rank=dist.get_rank(),
            world_size=dist.get_world_size(),
            backend=dist.get_backend(),
            environment=rank_variables(),
        )
        return result

    setattr(c10d, "init_process_group", init_process_group)  # noqa: B010 - mypy refuses a plain one
    setattr(dist, "init_process_group", init_process_group)  # noqa: B010


def _group_name(group: Any) -> str:
    """The same on every rank of the group, and told apart from any other group."""
    if group is None or group is c10d._get_default_group():
        return DEFAULT_GROUP
    if not isinstance(group, dist.ProcessGroup):
        return "a group that this rank is not in"
    return f"group {group.group_name}"
