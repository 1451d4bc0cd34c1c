"""What calls do with tensors: make, move, load and keep them."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from ddpdoctor.lint import checkpoints, dimensions
from ddpdoctor.lint.calls import call as call_value
from ddpdoctor.lint.devices import as_device, is_cpu, is_cuda, is_dtype, may_be_cuda
from ddpdoctor.lint.frameworks import has_setting
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.kinds.process import start_cuda
from ddpdoctor.lint.library_values import named_value
from ddpdoctor.lint.nn_modules import library_module, moved
from ddpdoctor.lint.paths import leaves, map_value, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensor_operations import computed
from ddpdoctor.lint.tensors import (
    default_device,
    device_of,
    device_of_input,
    kind_of,
    new_tensor,
    settled,
)
from ddpdoctor.lint.trace import Event
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Device,
    Dict,
    Function,
    Index,
    Name,
    Native,
    Object,
    Place,
    Role,
    Sequence,
    TypeOf,
    Unknown,
    Value,
)


def place(call: Call) -> Value:
    run, facts = call.run, call.api.facts
    receiver = call.receiver if call.receiver is not None else Unknown()
    given = call.given("device")
    device: Value
    if "on" in facts:
        device = named_value(run, facts["on"])
    elif given is None:
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
    return _put(call, receiver, device, given)


def _put(call: Call, receiver: Value, device: Value, given: Value | None) -> Value:
    run = call.run
    if may_be_cuda(device, run.path):
        call.record(
            "place",
            device=device,
            given=given,
            receiver=receiver,
        )
        start_cuda(run, device, call.place)
    return moved(run, receiver, device, call.place)


def _target(run: Run, value: Value) -> Value:
    """x.to(other): where the other tensor is."""
    return device_of(run, value) if kind_of(value) == "tensor" else value


def as_type(call: Call) -> Value:
    """x.type(t): t is a dtype, which moves nothing, or a tensor type such as
    "torch.cuda.FloatTensor", which moves what is on the CPU; x.type() gives the name of x's."""
    run, given = call.run, call.argument("type")
    receiver = call.receiver if call.receiver is not None else Unknown()
    if given is None:
        return map_value(device_of(run, receiver), run.path, TypeOf)
    types = [leaf for leaf, _ in leaves(given, run.path)]
    if all(is_dtype(leaf) and not _is_tensor_type(leaf) for leaf in types):
        return receiver
    to_gpu = all(map(_is_of_gpu, types))

    def moved_to(device: Value) -> Value:
        if is_cpu(device):
            return Device("cuda", None, call.place)
        return device if is_cuda(device) else Unknown()  # a GPU's tensor stays there

    target = map_value(device_of(run, receiver), run.path, moved_to) if to_gpu else Unknown()
    return _put(call, receiver, target, given)


def _is_of_gpu(value: Value) -> bool:
    if isinstance(value, TypeOf):
        return is_cuda(value.device)
    return _is_tensor_type(value) and ".cuda." in _type_name(value)


def _is_tensor_type(value: Value) -> bool:
    return _type_name(value).endswith("Tensor")


def _type_name(value: Value) -> str:
    """The name of a dtype or tensor type: torch.cuda.FloatTensor, or a string with that name."""
    if isinstance(value, Name):
        return value.name
    return str(value.value) if isinstance(value, Const) else ""


def create(call: Call) -> Value:
    run, facts = call.run, call.api.facts
    given, like = call.given("device"), call.argument("like")
    device: Value
    made: Event | None = None
    if facts.get("on") == "cuda":
        device = Device("cuda", None, call.place)
    elif facts.get("on") == "unknown":
        return Unknown()
    elif given is not None:
        device = as_device(map_value(given, run.path, lambda v: _target(run, v)), run.path)
    elif like is not None or kind_of(_data(call)) == "tensor":
        pattern = _data(call) if like is None else like
        return _where_it_is(call, pattern) if kind_of(pattern) == "tensor" else Unknown()
    elif facts.get("shares") and not isinstance(_data(call), (Const, Sequence)):
        device = Unknown()
    else:
        device = default_device(run)
        if isinstance(device, Device) and device.kind == "cpu":
            made = call.record(
                "make",
                device=device,
                input=device_of_input(run),
                takes_device="device" in facts,
                method=_method(run),
            )
    note_creation(run, call.name, device, given, call.arguments, call.place)
    marks = {"made": Const(made, call.place)}
    count = dimensions.made(facts, call.arguments)
    if count == 0 or (count is None and _may_be_number(call)):
        marks["scalar"] = Const(True)
    elif count is not None:
        marks["dimensions"] = Const(count)
    return new_tensor(run, settled(run, device), call.place, **marks)


def encodes(call: Call) -> Value:
    """tokenizer(texts, return_tensors="pt"): a dictionary of tensors."""
    kind = call.argument("kind")
    if not isinstance(kind, Const) or kind.value != "pt":
        return Unknown()
    return Dict(dict.fromkeys(call.api.facts["keys"], create(call)), open=True)


def _method(run: Run) -> str | None:
    """The method of a module that makes a tensor."""
    frame = run.in_method_of_module()
    return None if frame is None or frame.function is None else frame.function.name


def note_creation(
    run: Run, name: str, device: Value, given: Value | None, arguments: Arguments, place: Place
) -> None:
    """Notes a tensor or module that is made on a GPU."""
    if may_be_cuda(device, run.path):
        run.record("create", name, place, device=device, arguments=arguments, given=given)
        start_cuda(run, device, place)


def _data(call: Call) -> Value:
    """What a call makes a tensor of, if it does not make one of some size."""
    if call.api.facts.get("dimensions") != "data":
        return Const(None)
    return resolve(call.arguments.get(0, "data") or Unknown(), call.run.path)


def _may_be_number(call: Call) -> bool:
    """Whether what is made may have no dimensions: such a tensor of the CPU may meet any device."""
    return not isinstance(_data(call), (Const, Sequence))


def _where_it_is(call: Call, pattern: Value) -> Value:
    """A tensor where another one is, and for the same reason."""
    assert isinstance(pattern, Object)
    return computed(call.run, [pattern], call.place, count=dimensions.dimensions(pattern))


def like(call: Call) -> Value:
    other = call.argument("other")
    source = other if other is not None else call.receiver
    device = device_of(call.run, source) if source is not None else Unknown()
    given = call.given("device")
    if given is None and isinstance(source, Object) and kind_of(source) == "tensor":
        count = dimensions.made(call.api.facts, call.arguments)
        return computed(call.run, [source], call.place, count=count, scalar=count == 0)
    if given is not None:
        device = as_device(given, call.run.path)
        note_creation(call.run, call.name, device, given, call.arguments, call.place)
    return new_tensor(call.run, settled(call.run, device), call.place)


def load(call: Call) -> Value:
    run = call.run
    mapping = call.argument("map")
    device = None if mapping is None else as_device(_goal(mapping), run.path)
    event = call.record(
        "load",
        device=device,
        map=mapping,
        file=call.argument("file"),
        api=call.api,
        receiver=call.receiver,
        used=[],
    )
    if call.receiver is not None or call.argument("into") is not None:
        event.detail["used"].append(call.place)  # the call fills a model itself
    if isinstance(call.receiver, Class):
        return call_value(run, call.receiver, Arguments(open=True), call.place)
    return Object(None, {"#load": Const(event)}, call.place)


def _goal(mapping: Value) -> Value:
    """Of {"cuda:0": device} the device."""
    if isinstance(mapping, Dict) and len(mapping.entries) == 1 and not mapping.open:
        return next(iter(mapping.entries.values()))
    return mapping


def load_state(call: Call) -> Value:
    run = call.run
    state = call.argument("state")
    receiver = call.receiver if call.receiver is not None else call.argument("into")
    checkpoints.use(run, state, call.place)
    steps = receiver.attributes.get("#steps") if isinstance(receiver, Object) else None
    call.record(
        "load_state",
        receiver=receiver,
        state=state,
        module_at=None if steps is None else device_of(run, steps),
    )
    return Unknown()


def register(call: Call) -> Value:
    run = call.run
    name, value = call.argument("called"), call.argument("value")
    if isinstance(name, Const) and isinstance(call.receiver, Object) and value is not None:
        for leaf, _ in leaves(value, run.path):
            if isinstance(leaf, Object):
                run.heap.write(leaf.attributes, "#state", Const("buffer"))
                run.heap.write(leaf.attributes, "#owner", call.receiver)
        run.heap.write(call.receiver.attributes, name.value, value)
    return Const(None)


def parameter(call: Call) -> Value:
    value = call.arguments.get(0) or Unknown()
    device = device_of(call.run, value)
    if isinstance(device, Unknown):
        device = default_device(call.run)
    return new_tensor(call.run, device, call.place, state=Const("parameter"))


def pin(call: Call) -> Value:
    call.record("context", device=None)
    return call.receiver if call.receiver is not None else Unknown()


def context(call: Call) -> Value:
    run = call.run
    given = call.given("device")
    device = None if given is None else as_device(given, run.path)
    only_started = bool(call.api.facts.get("only_started"))
    call.record(
        "context",
        device=device,
        only_started=only_started,
    )
    if not only_started:
        start_cuda(run, device, call.place)
    return Unknown()


def starts(call: Call) -> Value:
    """Initialises CUDA without opening a context on a device."""
    start_cuda(call.run, None, call.place)
    return Unknown()


def current(call: Call) -> Value:
    """torch.cuda.current_device(): an unbound process is told 0, and may keep it."""
    call.record("current")

    def told(index: Value) -> Value:
        if isinstance(index, Const) and index.value is None:
            return Const(0, call.place)
        if isinstance(index, Index) and index.role is Role.GLOBAL:
            return Index(Role.GLOBAL, call.place, exact=index.exact)
        return index

    return map_value(call.run.cell["current"], call.run.path, told)


def set_default_device(call: Call) -> Value:
    run = call.run
    tensor_type = call.argument("type")
    given = call.argument("device")
    if tensor_type is not None:
        on_gpu = ".cuda." in _type_name(tensor_type)
        device: Value = Device("cuda", None, call.place) if on_gpu else Const(None)
    else:
        device = Const(None) if given is None else as_device(given, run.path)
    if may_be_cuda(device, run.path):
        call.record("default", device=device, given=given)
    elif isinstance(device, Device):
        device = Const(None)
    run.set_process("default_device", device)
    return Const(None)


def device(call: Call) -> Value:
    kind, index = call.argument("kind"), call.argument("index")
    if "on" in call.api.facts:
        kind = Const(call.api.facts["on"])
    if kind is None:
        return Unknown()
    if index is not None:
        return map_value(kind, call.run.path, lambda value: _with_index(call, value, index))

    def written(value: Value) -> Value:
        if isinstance(value, Device) and isinstance(value.index, Index) and value.origin is None:
            return Device(value.kind, value.index, call.place)
        return value

    device = as_device(kind, call.run.path)
    return Unknown() if isinstance(device, Const) else map_value(device, call.run.path, written)


def _with_index(call: Call, kind: Value, index: Value) -> Value:
    if isinstance(kind, Const) and isinstance(kind.value, str):
        if kind.value == "cpu":
            return Device("cpu")
        return map_value(
            index,
            call.run.path,
            lambda value: Device(kind.value, value, call.place),
        )
    return Unknown()


def consumes(call: Call) -> Value:
    """A library object that works on the device it is given, or on `default`."""
    run, facts = call.run, call.api.facts
    given = call.argument("device")
    if given is None and "default" in facts and not call.arguments.open:
        device = named_value(run, facts["default"])
    else:
        device = Unknown() if given is None else as_device(given, run.path)
    note_creation(run, call.name, device, given, call.arguments, call.place)
    return Object(Name(call.name), {}, call.place)


def takes_device(call: Call) -> Value:
    """@pipeline_def: calling the function makes a library object, with a device of its own."""
    options = call.arguments
    if isinstance(options.get(0), Function):
        options = Arguments()

    def make(arguments: Arguments, place: Place) -> Value:
        named = {**options.named, **arguments.named}
        return consumes(replace(call, arguments=Arguments((), named), place=place))

    if options is call.arguments:
        return Native(lambda function, place: Native(make))
    return Native(make)


def device_map(call: Call) -> Value:
    run = call.run
    given = call.given("map")
    if given is None and has_setting(call, call.api.facts.get("current", [])):
        given = Device("cuda")
    if given is not None:
        call.record("device_map", map=given)
    elif _loads_to_cpu(call):
        return library_module(run, call.name.rpartition(".")[0], Arguments(), call.place)
    if _is_one_of(call, "encoders"):
        return Object(Name(call.api.facts["encoder"]), {}, call.place)
    return Object(None, {}, call.place)


def _loads_to_cpu(call: Call) -> bool:
    """Whether the call gives a module where modules are made by default, as none of its other
    arguments places it."""
    return (
        _is_one_of(call, "modules")
        and not call.arguments.open
        and not call.arguments.named.keys() & set(call.api.facts.get("places", ()))
    )


def _is_one_of(call: Call, fact: str) -> bool:
    """Whether the class that is loaded is one of those that a fact lists."""
    owner = call.name.rpartition(".")[0]
    return any(fnmatchcase(owner, name) for name in call.api.facts.get(fact, ()))
