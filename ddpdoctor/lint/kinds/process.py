"""What calls do to the process: the device it is bound to, its process group, CUDA itself."""

from __future__ import annotations

from ddpdoctor.lint.comparisons import compare
from ddpdoctor.lint.devices import as_device, is_cuda, may_be_cuda
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.library_values import named_value
from ddpdoctor.lint.machines import is_alone_on_machine
from ddpdoctor.lint.paths import assume, map_value, resolve
from ddpdoctor.lint.run import UNBOUND, Run
from ddpdoctor.lint.trace import DEFAULT_BACKEND
from ddpdoctor.lint.values import (
    Const,
    Device,
    Index,
    Name,
    Object,
    Place,
    Role,
    Text,
    Unknown,
    Value,
)


def start_cuda(run: Run, device: Value | None, place: Place) -> None:
    """CUDA is initialised by the first use of a device."""
    before = resolve(run.cell["started"], run.path)
    if isinstance(before, Const) and before.value:
        return
    started = Const(True, place)
    if device is None:
        run.set_process("started", started)
    elif may_be_cuda(device, run.path):
        after = map_value(device, run.path, lambda leaf: started if is_cuda(leaf) else before)
        run.set_process("started", after)


def index_of(device: Value) -> Value:
    """The device index to bind to, for a value that says which device."""
    if isinstance(device, Device):
        return device.index if device.index is not None else UNBOUND
    return Unknown()


def bind(call: Call) -> Value:
    given = call.argument("device")
    device = Unknown() if given is None else as_device(given, call.run.path)
    call.record("bind", device=device, given=given)
    call.run.set_process("current", map_value(device, call.run.path, index_of))
    start_cuda(call.run, device, call.place)  # set_device initialises CUDA for the process
    return Const(None)


def block(call: Call) -> Value:
    given = call.argument("device")
    device = Unknown() if given is None else as_device(given, call.run.path)
    return Object(Name(call.name), {"#block": device}, call.place)


def start_block(run: Run, value: Value, place: Place) -> dict[str, Value]:
    """Enters a with block; what it changes of the process is given back to end_block."""
    if isinstance(value, Object) and "#block" in value.attributes:
        before = {"current": run.cell["current"]}
        device = value.attributes["#block"]
        run.record("bind", "torch.cuda.device", place, device=device, given=device, block=True)
        run.set_process("current", map_value(device, run.path, index_of))
        return before
    if isinstance(value, Device):
        before = {"default_device": run.cell["default_device"]}
        run.set_process("default_device", value)
        return before
    return {}


def end_block(run: Run, before: dict[str, Value]) -> None:
    for key, value in before.items():
        run.set_process(key, value)


# Backends that need no NVIDIA GPU of the rank's own: on the CPU, simulated, other accelerators.
_NO_GPU = ("gloo", "mpi", "fake", "xla", "hccl", "ccl", "xccl", "mccl", "cncl")


def group(call: Call) -> Value:
    run = call.run
    backend = call.argument("backend") or Const(None)
    device_id = call.argument("device_id")
    if not is_alone_on_machine(run, call.argument("size"), call.argument("rank")):
        _note_rank(run, resolve(call.argument("rank") or Const(None), run.path))
        call.record(
            "group",
            device=None if device_id is None else as_device(device_id, run.path),
            on_cpu=map_value(backend, run.path, lambda leaf: Const(_backend(leaf) in _NO_GPU)),
            sure=bool(call.api.facts.get("sure", True)),
            api=call.api,
        )
    run.set_process("group", map_value(backend, run.path, _as_opened))
    run.set_process("rank", _rank_in_group(call))
    if device_id is not None:
        run.set_process("paired", map_value(as_device(device_id, run.path), run.path, index_of))
        start_cuda(run, as_device(device_id, run.path), call.place)
    return Const(None)


def _note_rank(run: Run, rank: Value) -> None:
    """What a group is given as its rank is above 0 in this run, which is that of rank k."""
    if isinstance(rank, Unknown):
        first = compare("==", rank, Const(0), run.path)
        known = {**assume(first, False, run.path), **assume(rank, True, run.path)}
        run.path = {**run.path, **known}
        device = as_device(rank, run.path)
        for value in (rank, index_of(device)):
            if isinstance(value, Unknown):
                run.trace.ranks.setdefault(value.key, Index(Role.GLOBAL, rank.origin))


def _rank_in_group(call: Call) -> Value:
    """What get_rank() gives from now on: the rank that the program itself says this process has."""
    run = call.run
    given = call.argument("rank") or run.environment.entries.get("RANK", Unknown())
    rank = map_value(given, run.path, _local_or_global)

    def in_job_of(size: Value) -> Value:
        if isinstance(size, Index) and size.role is Role.DEVICES and size.exact:
            return Index(Role.LOCAL, call.place)  # one machine runs the whole job
        return rank

    return map_value(call.argument("size") or Unknown(), run.path, in_job_of)


def _local_or_global(rank: Value) -> Value:
    if isinstance(rank, Text) and len(rank.parts) == 1 and isinstance(rank.parts[0], Value):
        rank = rank.parts[0]
    is_local = isinstance(rank, Index) and rank.role is Role.LOCAL and rank.exact
    return rank if is_local else Index(Role.GLOBAL)


def _backend(leaf: Value) -> str | None:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        return _backend(leaf.default)
    if isinstance(leaf, Const) and isinstance(leaf.value, str):
        return leaf.value.lower()
    if isinstance(leaf, Name):
        return leaf.name.rpartition(".")[2].lower()
    return None


def _as_opened(backend: Value) -> Value:
    """None is the default backend, unlike None for no group."""
    is_none = isinstance(backend, Const) and not backend.value
    return Const(DEFAULT_BACKEND) if is_none else backend


def initialized(call: Call) -> Value:
    def is_open(group: Value) -> Value:
        if isinstance(group, Const):
            return Const(group.value is not None)
        return Const(True)

    return map_value(call.run.cell["group"], call.run.path, is_open)


def mesh(call: Call) -> Value:
    """DeviceMesh opens a group if there is none, and binds a process where CUDA has not started."""
    run = call.run
    kind = call.argument("kind")
    if isinstance(kind, Const) and kind.value == "cuda":
        call.record("mesh")
        group = resolve(run.cell["group"], run.path)
        if isinstance(group, Const) and group.value is None:
            run.record(
                "group",
                call.name,
                call.place,
                on_cpu=Const(False),
                sure=True,
                api=call.api,
                mesh=True,
            )
            run.set_process("group", Const("nccl"))
        started = resolve(run.cell["started"], run.path)
        if isinstance(started, Const) and not started.value:
            run.set_process("current", named_value(run, "local_rank"))
    return Object(Name(call.name), {}, call.place)


def subgroup(call: Call) -> Value:
    backend = call.argument("backend")
    on_cpu = isinstance(backend, Const) and backend.value == "gloo"
    return Object(Name(call.name), {"#on_cpu": Const(on_cpu)}, call.place)
