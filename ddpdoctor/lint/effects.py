"""What library calls do, in the words of the tables in rules/apis: events and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ddpdoctor.lint import environment
from ddpdoctor.lint.apis import Api
from ddpdoctor.lint.attributes import class_attribute, named_value
from ddpdoctor.lint.branches import leaves, map_value, resolve
from ddpdoctor.lint.devices import as_device, is_cuda, is_dtype
from ddpdoctor.lint.frameworks import gives_back, open_group_and_bind, rank_zero, run_framework
from ddpdoctor.lint.natives import call_builtin
from ddpdoctor.lint.processes import run_executor, run_process, run_spawn, run_thread
from ddpdoctor.lint.run import UNBOUND, Run
from ddpdoctor.lint.stdlib import call_standard, standard_method
from ddpdoctor.lint.tensors import (
    combine,
    default_device,
    device_of,
    device_of_input,
    devices_of_parts,
    held_in,
    kind_of,
    library_module,
    meet,
    moved,
    new_tensor,
    settled,
)
from ddpdoctor.lint.values import (
    Arguments,
    Attribute,
    Class,
    Const,
    Device,
    Function,
    Method,
    Name,
    Native,
    Object,
    Partial,
    Place,
    Sequence,
    Unknown,
    Value,
)


@dataclass(frozen=True)
class Call:
    """A library call that is being made. receiver: of a method, else None."""

    run: Run
    api: Api
    name: str
    arguments: Arguments
    place: Place
    receiver: Value | None = None

    def argument(self, role: str) -> Value | None:
        value = self.api.argument(role, self.arguments)
        return None if value is None else resolve(value, self.run.path)


def call_library(run: Run, name: str, arguments: Arguments, place: Place) -> Value:
    """Calls something of a library by its full name."""
    name = run.apis.canonical(name)
    if name.startswith("builtins.") and name != "builtins.open":
        return call_builtin(run, name[len("builtins.") :], arguments, place)
    if name.startswith("os.environ.") or name == "os.getenv":
        return environment.call_method(run, name.rpartition(".")[2], arguments, place)
    result = call_standard(run, name, arguments, place)
    if result is not None:
        return result
    api = run.apis.call(name)
    if api is not None:
        return _KINDS[api.does](Call(run, api, name, arguments, place))
    owner, _, last = name.rpartition(".")
    method = run.apis.methods.get(last)
    if method is not None and arguments.positional and owner.rpartition(".")[2][:1].isupper():
        rest = Arguments(arguments.positional[1:], arguments.named, arguments.open)
        return call_method(run, arguments.positional[0], last, rest, place)  # Tensor.cuda(x)
    if last[:1].isupper() and run.apis.kind(name) == "module":
        device = arguments.named.get("device")
        if device is not None:
            note_creation(run, name, as_device(device, run.path), device, arguments, place)
        return library_module(run, name, arguments, place)
    if name.startswith("torch.optim.") and last[:1].isupper():
        return _optimizer(run, name, arguments, place)
    _meet_arguments(run, name, arguments, place)
    escape(run, name, arguments, place)
    if last[:1].isupper():
        return Object(Name(name), {}, place)
    given = [held for value in arguments.positional for held in held_in(resolve(value, run.path))]
    tensors = [value for value in given if kind_of(value) == "tensor"]
    if name.startswith("torch.") and tensors:
        made = [value.attributes.get("#made") for value in tensors]
        marks = {} if None in made or made[0] is None else {"made": made[0]}
        return new_tensor(run, device_of(run, tensors[0]), place, **marks)
    return Unknown()


def _optimizer(run: Run, name: str, arguments: Arguments, place: Place) -> Object:
    """An optimizer, which keeps its state where the parameters of its module are."""
    optimizer = Object(Name(name), {}, place)
    parameters = resolve(arguments.get(0, "params") or Unknown(), run.path)
    if isinstance(parameters, Object) and "#of" in parameters.attributes:
        optimizer.attributes["#steps"] = parameters.attributes["#of"]
    return optimizer


# Some of their arguments live on the CPU on purpose (the lengths of a packed sequence).
_MIXES_DEVICES = (
    "torch.utils",
    "torch.save",
    "torch.nn.utils",
    "torch.distributed",
    "torch.jit",
    "torch.onnx",
    "torch.broadcast",
    "torch.is_",
)


def _meet_arguments(run: Run, name: str, arguments: Arguments, place: Place) -> None:
    """torch.cat([a, b]), F.mse_loss(x, y): tensors of one call have to be on one device."""
    if not name.startswith("torch.") or name.startswith(_MIXES_DEVICES):
        return
    tensors = [
        value
        for argument in arguments.positional
        for value in held_in(resolve(argument, run.path))
        if kind_of(value) == "tensor"
    ]
    for other in tensors[1:]:
        meet(run, tensors[0], other, place)


def call_method(
    run: Run, receiver: Value, name: str, arguments: Arguments, place: Place
) -> Value:
    """Calls a method that the program does not define."""
    receiver = resolve(receiver, run.path)
    for owner in _library_classes(receiver):
        full = run.apis.canonical(f"{owner}.{name}")
        result = standard_method(run, receiver, owner, name, arguments, place)
        if result is not None:
            return result
        api = run.apis.calls.get(full)
        if api is None and name == "__init__":  # super().__init__(...) in a class of the program
            api = run.apis.calls.get(run.apis.canonical(owner))
            if api is not None and api.does != "consumes":
                continue
        if api is not None:
            return _KINDS[api.does](Call(run, api, full, arguments, place, receiver))
        if owner == "threading.Thread" and name == "start":
            return run_thread(run, _own_run(receiver), None, None, place)
    api = run.apis.methods.get(name)
    if api is not None:
        return _KINDS[api.does](Call(run, api, name, arguments, place, receiver))
    if kind_of(receiver) is not None and isinstance(receiver, Object):
        return _tensor_method(run, receiver, name, arguments, place)
    if isinstance(receiver, Object) and "#load" in receiver.attributes:
        return receiver
    escape(run, name if name.startswith(_MAY_BIND) else "", arguments, place)
    return Unknown()


def _own_run(receiver: Value) -> Value | None:
    """The run() of a class that derives from Thread."""
    if isinstance(receiver, Object) and isinstance(receiver.cls, Class):
        found = class_attribute(receiver.cls, "run")
        return None if found is None else Method(receiver, found)
    return None


def known_api(run: Run, callee: Value) -> Api | None:
    """What the tables know of something that could be called."""
    if isinstance(callee, Name):
        return run.apis.call(run.apis.canonical(callee.name))
    if isinstance(callee, Attribute):
        for owner in _library_classes(resolve(callee.receiver, run.path)):
            api = run.apis.calls.get(run.apis.canonical(f"{owner}.{callee.name}"))
            if api is not None:
                return api
    return None


def _library_classes(receiver: Value) -> list[str]:
    if isinstance(receiver, Object):
        if isinstance(receiver.cls, Name):
            return [receiver.cls.name]
        if isinstance(receiver.cls, Class):
            return receiver.cls.library_bases()
    if isinstance(receiver, Class):
        return receiver.library_bases()
    return []


_MEMBERS = ("parameters", "named_parameters", "buffers", "children", "modules", "state_dict")
_SAME = ("train", "eval", "requires_grad_", "half", "float", "double", "bfloat16", "apply")


# These take a tensor from any device: they copy it, or look at its shape only.
_SHAPE_ONLY = ("copy_", "expand_as", "view_as", "reshape_as", "resize_as_", "type_as", "set_")


def _tensor_method(
    run: Run, receiver: Object, name: str, arguments: Arguments, place: Place
) -> Value:
    if kind_of(receiver) == "module":
        if name in _SAME or name == "__init__":
            return receiver
        if name in _MEMBERS:
            member = new_tensor(run, device_of(run, receiver), place)
            return Object(Name("torch." + name), {"#members": member, "#of": receiver}, place)
        return Unknown()
    if name not in _SHAPE_ONLY:
        for value in arguments.positional:
            combine(run, receiver, value, place)
    if name in ("item", "tolist", "numpy", "size", "dim", "numel"):
        return Unknown()
    return Object(receiver.cls, dict(receiver.attributes), place)


# Methods that bind whatever they belong to: getattr(torch, kind).set_device(index), for one.
_MAY_BIND = ("set_device", "init_dist", "setup_dist", "init_process")


def escape(run: Run, name: str, arguments: Arguments, place: Place) -> None:
    """A call that cannot be followed. name: of the function, "" for a method of something unknown.

    It may bind the process if its name says that it sets up, and it may move modules.
    """
    if name.startswith(tuple(f"{library}." for library in run.apis.libraries)):
        return
    lowered = name.lower()
    if any(word in lowered for word in run.apis.may_bind):
        current = resolve(run.cell["current"], run.path)
        if isinstance(current, Const) and current.value is None:
            run.set_process("current", Unknown())
    for value in (*arguments.positional, *arguments.named.values()):
        value = resolve(value, run.path)
        if kind_of(value) == "module" and isinstance(value, Object):
            run.heap.write(value.attributes, "#device", Unknown())
    function = arguments.get(0)
    if isinstance(function, (Function, Partial)) and len(run.frames) == 1:
        from ddpdoctor.lint.calls import call

        call(run, function, Arguments(open=True), place)  # fire.Fire(main), app.run(main) ...


# -- the process: devices, groups ---------------------------------------------------------------


def start_cuda(run: Run, device: Value | None, place: Place) -> None:
    """CUDA is initialised by the first use of a device."""
    if device is None or any(is_cuda(leaf) for leaf, _ in leaves(device, run.path)):
        started = resolve(run.cell["started"], run.path)
        if not (isinstance(started, Const) and started.value):
            run.set_process("started", Const(True, place))


def index_of(device: Value) -> Value:
    """The device index to bind to, for a value that says which device."""
    if isinstance(device, Device):
        return device.index if device.index is not None else UNBOUND
    return Unknown()


def _bind(call: Call) -> Value:
    given = call.argument("device")
    device = Unknown() if given is None else as_device(given, call.run.path)
    call.run.record(
        "bind", call.name, call.place, device=device, arguments=call.arguments, given=given
    )
    call.run.set_process("current", map_value(device, call.run.path, index_of))
    return Const(None)


def _block(call: Call) -> Value:
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


def _group(call: Call) -> Value:
    run = call.run
    backend = call.argument("backend") or Const(None)
    names = [_backend(leaf) for leaf, _ in leaves(backend, run.path)]
    device_id = call.argument("device_id")
    run.record(
        "group",
        call.name,
        call.place,
        device=None if device_id is None else as_device(device_id, run.path),
        arguments=call.arguments,
        on_cpu=all(name in _NO_GPU for name in names),
        sure=bool(call.api.facts.get("sure", True)),
        api=call.api,
    )
    run.set_process("group", backend if names and names[0] else Const("default"))
    if device_id is not None:
        run.set_process("paired", map_value(as_device(device_id, run.path), run.path, index_of))
        start_cuda(run, as_device(device_id, run.path), call.place)
    return Const(None)


def _backend(leaf: Value) -> str | None:
    if isinstance(leaf, Unknown) and leaf.default is not None:
        return _backend(leaf.default)
    if isinstance(leaf, Const) and isinstance(leaf.value, str):
        return leaf.value.lower()
    if isinstance(leaf, Name):
        return leaf.name.rpartition(".")[2].lower()
    return None


def _initialized(call: Call) -> Value:
    def is_open(group: Value) -> Value:
        if isinstance(group, Const):
            return Const(group.value is not None)
        return Const(True)

    return map_value(call.run.cell["group"], call.run.path, is_open)


def _mesh(call: Call) -> Value:
    """DeviceMesh opens a group if there is none, and binds a process where CUDA has not started."""
    run = call.run
    kind = call.argument("kind")
    if isinstance(kind, Const) and kind.value == "cuda":
        run.record("mesh", call.name, call.place, arguments=call.arguments)
        group = resolve(run.cell["group"], run.path)
        if isinstance(group, Const) and group.value is None:
            run.record(
                "group", call.name, call.place, on_cpu=False, sure=True, api=call.api, mesh=True
            )
            run.set_process("group", Const("nccl"))
        started = resolve(run.cell["started"], run.path)
        if isinstance(started, Const) and not started.value:
            run.set_process("current", named_value(run, "local_rank"))
    return Object(Name(call.name), {}, call.place)


def _subgroup(call: Call) -> Value:
    backend = call.argument("backend")
    on_cpu = isinstance(backend, Const) and backend.value == "gloo"
    return Object(Name(call.name), {"#on_cpu": Const(on_cpu)}, call.place)


# -- tensors ------------------------------------------------------------------------------------


def _place(call: Call) -> Value:
    run, facts = call.run, call.api.facts
    receiver = call.receiver if call.receiver is not None else Unknown()
    given = call.argument("device")
    device: Value
    if "on" in facts:
        device = named_value(run, facts["on"])
    elif given is None or (isinstance(given, Const) and given.value is None):
        if facts.get("default") != "cuda":
            return receiver
        device = Device("cuda", None, call.place)
    else:
        if any(is_dtype(leaf) for leaf, _ in leaves(given, run.path)):
            return receiver
        device = map_value(given, run.path, lambda value: _target(run, value))
        device = as_device(device, run.path)
        if isinstance(device, Const):
            return receiver
    if any(is_cuda(leaf) for leaf, _ in leaves(device, run.path)):
        run.record(
            "place",
            call.name,
            call.place,
            device=device,
            arguments=call.arguments,
            given=given,
            receiver=receiver,
        )
        start_cuda(run, device, call.place)
    return moved(run, receiver, device, call.place)


def _target(run: Run, value: Value) -> Value:
    """x.to(other): where the other tensor is."""
    return device_of(run, value) if kind_of(value) == "tensor" else value


def _create(call: Call) -> Value:
    run, facts = call.run, call.api.facts
    given = call.argument("device")
    like = call.argument("like")
    device: Value
    if facts.get("on") == "cuda":
        device = Device("cuda", None, call.place)
    elif facts.get("on") == "unknown":
        return Unknown()
    elif given is not None and not (isinstance(given, Const) and given.value is None):
        device = as_device(map_value(given, run.path, lambda v: _target(run, v)), run.path)
    elif like is not None:
        device = device_of(run, like)
        return new_tensor(run, device, call.place) if isinstance(device, Device) else Unknown()
    else:
        device = default_device(run)
        if isinstance(device, Device) and device.kind == "cpu":
            run.record(
                "make",
                call.name,
                call.place,
                device=device,
                arguments=call.arguments,
                input=device_of_input(run),
                takes_device="device" in facts,
                in_forward=run.in_forward() is not None,
            )
    note_creation(run, call.name, device, given, call.arguments, call.place)
    marks = {"made": Const(call.name, call.place)}
    if _is_scalar(call):
        marks["scalar"] = Const(True)
    return new_tensor(run, settled(run, device), call.place, **marks)


def note_creation(
    run: Run, name: str, device: Value, given: Value | None, arguments: Arguments, place: Place
) -> None:
    """Notes a tensor or module that is made on a GPU."""
    if any(is_cuda(leaf) for leaf, _ in leaves(device, run.path)):
        run.record("create", name, place, device=device, arguments=arguments, given=given)
        start_cuda(run, device, place)


def _is_scalar(call: Call) -> bool:
    """Whether the tensor has no dimensions, so that it may be mixed with any device from the CPU."""
    first = call.arguments.get(0)
    if call.api.facts.get("literal"):
        return not isinstance(first, Sequence)
    return isinstance(first, Sequence) and not first.items and not first.open


def _like(call: Call) -> Value:
    other = call.argument("other")
    source = other if other is not None else call.receiver
    device = device_of(call.run, source) if source is not None else Unknown()
    given = call.arguments.get(None, "device")
    if given is not None:
        device = as_device(given, call.run.path)
        note_creation(call.run, call.name, device, given, call.arguments, call.place)
    return new_tensor(call.run, settled(call.run, device), call.place)


def _load(call: Call) -> Value:
    run = call.run
    mapping = call.argument("map")
    device = None if mapping is None else as_device(mapping, run.path)
    event = run.record(
        "load",
        call.name,
        call.place,
        device=device,
        arguments=call.arguments,
        map=mapping,
        file=call.argument("file"),
        api=call.api,
        receiver=call.receiver,
        used=[],
    )
    if call.receiver is not None or call.argument("into") is not None:
        event.detail["used"].append(call.place)  # the call fills a model itself
    if isinstance(call.receiver, Class):
        from ddpdoctor.lint.calls import call as call_value

        return call_value(run, call.receiver, Arguments(open=True), call.place)
    return Object(None, {"#load": Const(event)}, call.place)


def _load_state(call: Call) -> Value:
    run = call.run
    state = call.argument("state")
    receiver = call.receiver if call.receiver is not None else call.argument("into")
    if isinstance(state, Object) and "#load" in state.attributes:
        load = state.attributes["#load"]
        if isinstance(load, Const):
            load.value.detail["used"].append(call.place)
    steps = receiver.attributes.get("#steps") if isinstance(receiver, Object) else None
    run.record(
        "load_state",
        call.name,
        call.place,
        receiver=receiver,
        state=state,
        module_at=None if steps is None else device_of(run, steps),
    )
    return Unknown()


def _register(call: Call) -> Value:
    run = call.run
    name, value = call.argument("called"), call.argument("value")
    if isinstance(name, Const) and isinstance(call.receiver, Object) and value is not None:
        if isinstance(value, Object):
            run.heap.write(value.attributes, "#state", Const("buffer"))
            run.heap.write(value.attributes, "#owner", call.receiver)
        run.heap.write(call.receiver.attributes, name.value, value)
    return Const(None)


def _parameter(call: Call) -> Value:
    value = call.arguments.get(0) or Unknown()
    device = device_of(call.run, value)
    if isinstance(device, Unknown):
        device = default_device(call.run)
    return new_tensor(call.run, device, call.place, state=Const("parameter"))


def _pin(call: Call) -> Value:
    call.run.record("context", call.name, call.place, device=None, arguments=call.arguments)
    return call.receiver if call.receiver is not None else Unknown()


def _context(call: Call) -> Value:
    run = call.run
    given = call.argument("device")
    device = None if given is None else as_device(given, run.path)
    if isinstance(device, Const):
        device = None
    facts = call.api.facts
    run.record(
        "context",
        call.name,
        call.place,
        device=device,
        arguments=call.arguments,
        only_started=bool(facts.get("only_started")),
    )
    if not facts.get("only_started"):
        start_cuda(run, device, call.place)
    return Unknown()


def _starts(call: Call) -> Value:
    """Initialises CUDA without opening a context on a device."""
    start_cuda(call.run, None, call.place)
    return Unknown()


def _current(call: Call) -> Value:
    """torch.cuda.current_device(): an unbound process is told 0, and may keep it."""
    call.run.record("current", call.name, call.place)

    def told(index: Value) -> Value:
        unbound = isinstance(index, Const) and index.value is None
        return Const(0, call.place) if unbound else index

    return map_value(call.run.cell["current"], call.run.path, told)


def _default_device(call: Call) -> Value:
    run = call.run
    tensor_type = call.argument("type")
    given = call.argument("device")
    if tensor_type is not None:
        name = tensor_type.name if isinstance(tensor_type, Name) else ""
        if isinstance(tensor_type, Const):
            name = str(tensor_type.value)
        device: Value = Device("cuda", None, call.place) if ".cuda." in name else Const(None)
    else:
        device = Const(None) if given is None else as_device(given, run.path)
    if any(is_cuda(leaf) for leaf, _ in leaves(device, run.path)):
        run.record(
            "default", call.name, call.place, device=device, arguments=call.arguments, given=given
        )
    elif isinstance(device, Device):
        device = Const(None)
    run.set_process("default_device", device)
    return Const(None)


def _device(call: Call) -> Value:
    kind, index = call.argument("kind"), call.argument("index")
    if "on" in call.api.facts:
        kind = Const(call.api.facts["on"])
    if kind is None:
        return Unknown()
    if index is not None:
        return map_value(kind, call.run.path, lambda value: _with_index(call, value, index))
    device = as_device(kind, call.run.path)
    return Unknown() if isinstance(device, Const) else device


def _with_index(call: Call, kind: Value, index: Value) -> Value:
    if isinstance(kind, Const) and isinstance(kind.value, str):
        if kind.value == "cpu":
            return Device("cpu")
        return map_value(
            index,
            call.run.path,
            lambda value: Device(kind.value, value, kind.origin or call.place),
        )
    return Unknown()


def _consumes(call: Call) -> Value:
    """A library object that works on the device it is given, or on `default`."""
    run, facts = call.run, call.api.facts
    given = call.argument("device")
    if given is None and "default" in facts and not call.arguments.open:
        device = named_value(run, facts["default"])
    else:
        device = Unknown() if given is None else as_device(given, run.path)
    if any(is_cuda(leaf) for leaf, _ in leaves(device, run.path)):
        run.record(
            "create",
            call.name,
            call.place,
            device=device,
            arguments=call.arguments,
            given=given,
        )
        start_cuda(run, device, call.place)
    return Object(Name(call.name), {}, call.place)


def _takes_device(call: Call) -> Value:
    """@pipeline_def: calling the function makes a library object, with a device of its own."""
    options = call.arguments
    if isinstance(options.get(0), Function):
        options = Arguments()

    def make(arguments: Arguments, place: Place) -> Value:
        named = {**options.named, **arguments.named}
        return _consumes(replace(call, arguments=Arguments((), named), place=place))

    if options is call.arguments:
        return Native(lambda function, place: Native(make))
    return Native(make)


def _device_map(call: Call) -> Value:
    run = call.run
    given = call.argument("map")
    if given is not None:
        run.record("device_map", call.name, call.place, arguments=call.arguments, map=given)
    return Object(None, {}, call.place)


# -- wrapping and communication -----------------------------------------------------------------


def _wrap(call: Call) -> Value:
    run = call.run
    module = call.argument("module") or Unknown()
    run.record(
        "wrap",
        call.name,
        call.place,
        device=device_of(run, module),
        arguments=call.arguments,
        module=module,
        device_ids=call.argument("device_ids"),
        output_device=call.argument("output_device"),
        parts=devices_of_parts(run, module),
        api=call.api,
    )
    attributes = {"#wrapped": module, "module": module, "#device": device_of(run, module)}
    return Object(Name(call.name), attributes, call.place)


def _shard(call: Call) -> Value:
    run = call.run
    module = call.argument("module") or Unknown()
    given = call.argument("device_id")
    run.record(
        "shard",
        call.name,
        call.place,
        device=None if given is None else as_device(given, run.path),
        arguments=call.arguments,
        module=module,
        mesh=call.argument("mesh"),
    )
    return Object(Name(call.name), {"#wrapped": module, "module": module}, call.place)


def _parallel(call: Call) -> Value:
    """DataParallel is one process on several GPUs: no rank, and nothing of it is misplaced."""
    module = call.argument("module") or Unknown()
    return Object(Name(call.name), {"#wrapped": module, "module": module}, call.place)


def _collective(call: Call) -> Value:
    tensor = call.argument("tensor")
    device = None if tensor is None else device_of(call.run, tensor)
    call.run.record(
        "collective",
        call.name,
        call.place,
        device=device,
        arguments=call.arguments,
        tensor=tensor,
        group=call.arguments.get(None, "group"),
    )
    return Unknown()


def _objects(call: Call) -> Value:
    payload = call.argument("payload")
    held = [] if payload is None else held_in(payload)
    members = [value.attributes.get("#members", value) for value in held]
    call.run.record(
        "objects",
        call.name,
        call.place,
        arguments=call.arguments,
        payload_devices=[device_of(call.run, value) for value in members],
        group=call.argument("group"),
        device=call.argument("device"),
    )
    return Const(None)


def _barrier(call: Call) -> Value:
    call.run.record(
        "barrier",
        call.name,
        call.place,
        arguments=call.arguments,
        device_ids=call.argument("device_ids"),
        group=call.argument("group"),
    )
    return Const(None)


# -- calls that run other functions -------------------------------------------------------------


def _passes(call: Call) -> Value:
    given = call.arguments.get(0)
    return Unknown() if given is None else given


def _calls(call: Call) -> Value:
    from ddpdoctor.lint.calls import call as call_value

    target = call.argument("target")
    if target is None:
        return Unknown()
    given = call.argument("arguments")
    if isinstance(given, Sequence):
        return call_value(call.run, target, Arguments(given.items), call.place)
    rest = Arguments(call.arguments.positional[1:], {}, call.arguments.open)
    return call_value(call.run, target, rest, call.place)


def _nothing(call: Call) -> Value:
    return Unknown()


def _returns(call: Call) -> Value:
    word = call.api.facts.get("value", "unknown")
    if call.api.facts.get("query"):
        call.run.record("query", call.name, call.place)
    group = call.argument("group")
    if group is not None and not (isinstance(group, Const) and group.value is None):
        return Unknown()  # the rank in a group of its own, such as the ranks of one machine
    return call.run.cell["group"] if word == "backend" else named_value(call.run, word)


def _spawn(call: Call) -> Value:
    count, nodes = call.argument("count"), call.argument("nodes")
    if nodes is not None and not (isinstance(nodes, Const) and nodes.value == 1):
        count = None
    arguments = call.argument("arguments")
    if call.api.facts.get("rest"):
        arguments = Sequence(call.arguments.positional[1:], "tuple", open=call.arguments.open)
    return run_spawn(
        call.run,
        _prepared(call),
        arguments,
        count,
        call.place,
        passes_index=bool(call.api.facts.get("index", True)),
    )


def _launcher(call: Call) -> Value:
    """elastic_launch(config, main)(*arguments): the ranks start where the result is called."""
    target = call.argument("target")

    def launch(arguments: Arguments, place: Place) -> Value:
        given = Sequence(arguments.positional, "tuple", open=arguments.open)
        return run_spawn(call.run, target, given, None, place, passes_index=False)

    return Native(launch)


def _prepared(call: Call) -> Value | None:
    """The function that each new process runs, after what the launcher does there itself."""
    from ddpdoctor.lint.calls import call as call_value

    target = call.argument("target")
    if target is None or not call.api.facts.get("groups"):
        return target

    def start(arguments: Arguments, place: Place) -> Value:
        open_group_and_bind(call)
        return call_value(call.run, target, arguments, place)

    return Native(start)


def _process(call: Call) -> Value:
    return run_process(
        call.run,
        call.argument("target"),
        call.argument("arguments"),
        call.argument("keywords"),
        call.place,
    )


def _thread(call: Call) -> Value:
    return run_thread(
        call.run,
        call.argument("target"),
        call.argument("arguments"),
        call.argument("keywords"),
        call.place,
    )


def _executor(call: Call) -> Value:
    return run_executor(
        call.run, call.argument("initializer"), call.argument("initargs"), call.place
    )


def _multiprocessing(call: Call) -> Value:
    return Name("torch.multiprocessing")


def _option(call: Call) -> Value:
    """@click.option("--gpu", default=0): the parameter of that name gets the option's value."""
    from ddpdoctor.lint.options import click_option

    return click_option(call.run, call.arguments, call.place)


def _command(call: Call) -> Value:
    """fire.Fire(main): runs it, its parameters being options; of a dataclass, makes one."""
    from ddpdoctor.lint.commands import run_component

    return run_component(call.run, call.argument("target"), call.place)


def _command_group(call: Call) -> Value:
    """typer.Typer(), @click.group()."""
    from ddpdoctor.lint.commands import new_group

    name = str(call.api.facts.get("makes", call.name))
    if name == call.name:
        return new_group(name, call.place)
    return _on_function(call, lambda function: new_group(name, call.place, function))


def _subcommand(call: Call) -> Value:
    """@cli.command(), cli.add_command(train), @cli.group()."""
    from ddpdoctor.lint.commands import add_command, new_group

    name = call.api.facts.get("makes")

    def add(command: Value) -> Value:
        if isinstance(name, str):
            command = new_group(name, call.place, command)
        return add_command(call.run, call.receiver, command)

    return _on_function(call, add)


def _on_function(call: Call, decorate: Callable[[Value], Value]) -> Value:
    """A decorator with or without options in between."""
    given = call.arguments.get(0)
    if isinstance(given, (Function, Object)):
        return decorate(given)
    return Native(lambda arguments, place: decorate(arguments.get(0) or Unknown()))


def _records(call: Call) -> Value:
    """HfArgumentParser((A, B)).parse_args_into_dataclasses(): one instance of each class."""
    from ddpdoctor.lint.options import parse_into_dataclasses

    return parse_into_dataclasses(call.run, call.receiver, call.place)


def _kernel(call: Call) -> Value:
    """triton.jit(...) called with options is a decorator still."""
    return Object(Name(call.name), {}, call.place)


def _keeps(call: Call) -> Value:
    """A library object that keeps its first argument for a later call."""
    return Object(Name(call.name), {"#kept": call.arguments.get(0) or Unknown()}, call.place)


_KINDS: dict[str, Callable[[Call], Value]] = {
    "bind": _bind,
    "block": _block,
    "group": _group,
    "initialized": _initialized,
    "framework": run_framework,
    "runs": run_framework,
    "rank_zero": rank_zero,
    "mesh": _mesh,
    "subgroup": _subgroup,
    "place": _place,
    "create": _create,
    "like": _like,
    "load": _load,
    "load_state": _load_state,
    "register": _register,
    "parameter": _parameter,
    "pin": _pin,
    "context": _context,
    "starts": _starts,
    "current": _current,
    "default_device": _default_device,
    "device": _device,
    "consumes": _consumes,
    "takes_device": _takes_device,
    "device_map": _device_map,
    "wrap": _wrap,
    "shard": _shard,
    "parallel": _parallel,
    "collective": _collective,
    "objects": _objects,
    "barrier": _barrier,
    "passes": _passes,
    "gives_back": gives_back,
    "calls": _calls,
    "returns": _returns,
    "nothing": _nothing,
    "spawn": _spawn,
    "launcher": _launcher,
    "process": _process,
    "thread": _thread,
    "executor": _executor,
    "multiprocessing": _multiprocessing,
    "loader": _keeps,
    "option": _option,
    "command": _command,
    "command_group": _command_group,
    "subcommand": _subcommand,
    "records": _records,
    "keeps": _keeps,
    "kernel": _kernel,
}
KINDS = frozenset(_KINDS)
