"""Tensors and modules: where they live, what moves with them, which of them meet."""

from __future__ import annotations

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.branches import leaves, map_value, resolve
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.devices import as_device, is_cpu
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Class,
    Const,
    Device,
    Dict,
    Either,
    Name,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)

TENSOR = Name("torch.Tensor")
CPU = Device("cpu")
UNBOUND_INDEX = Const(0)  # the index of what was put on "cuda" before the process was bound


def default_device(run: Run) -> Value:
    """Where a tensor is made that names no device."""
    device = resolve(run.cell["default_device"], run.path)
    return CPU if isinstance(device, Const) else device


def new_tensor(run: Run, device: Value, place: Place, **marks: Value) -> Object:
    attributes: dict[object, Value] = {"#device": device, "#kind": Const("tensor")}
    attributes.update({f"#{name}": value for name, value in marks.items()})
    return Object(TENSOR, attributes, place)


def new_module(run: Run, instance: Object) -> None:
    """Marks an object as an nn.Module whose parameters are on the default device."""
    instance.attributes["#device"] = default_device(run)
    instance.attributes["#kind"] = Const("module")
    run.modules_of_job.append(instance)


def kind_of(value: Value) -> str | None:
    """ "tensor" or "module" where it is known to be one."""
    if isinstance(value, Object):
        kind = value.attributes.get("#kind")
        if isinstance(kind, Const):
            return str(kind.value)
    return None


def device_of(run: Run, value: Value) -> Value:
    """Where a tensor or module lives, as far as it is known."""
    return map_value(value, run.path, lambda each: _device_of(run, each))


def _device_of(run: Run, value: Value) -> Value:
    if isinstance(value, Object):
        device = value.attributes.get("#device")
        if device is not None and device is not MISSING:
            return resolve(device, run.path)
    return Unknown()


def settled(run: Run, device: Value) -> Value:
    """The device an un-indexed one means right now."""
    current = run.cell["current"]

    def settle(value: Value) -> Value:
        if isinstance(value, Device) and value.kind == "cuda" and value.index is None:
            return map_value(current, run.path, _on_index)
        return value

    return map_value(device, run.path, settle)


def _on_index(index: Value) -> Value:
    unbound = isinstance(index, Const) and index.value is None
    return Device("cuda", UNBOUND_INDEX if unbound else index)


def moved(run: Run, receiver: Value, device: Value, place: Place) -> Value:
    """The result of receiver.to(device): a module moves in place with all below it."""
    device = settled(run, device)
    if kind_of(receiver) == "module" and isinstance(receiver, Object):
        _move_module(run, receiver, device, set())
        return receiver
    if isinstance(receiver, Object) and kind_of(receiver) == "tensor":
        attributes = {**receiver.attributes, "#device": device}
        attributes.pop("#made", None)  # where it was made is not why it is here
        return Object(receiver.cls, attributes, receiver.origin)
    if isinstance(receiver, Object):
        run.heap.write(receiver.attributes, "#device", device)
        return receiver
    return Object(None, {"#device": device, "#moved": receiver}, place)


def _move_module(run: Run, module: Object, device: Value, seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    run.heap.write(module.attributes, "#device", device)
    moves_more = isinstance(module.cls, Class) and class_attribute(module.cls, "_apply") is not None
    for name, value in list(module.attributes.items()):
        if isinstance(name, str) and name.startswith("#") and name != "#children":
            continue
        value = resolve(value, run.path)
        if kind_of(value) == "module" and isinstance(value, Object):
            _move_module(run, value, device, seen)
        elif isinstance(value, Object) and (is_state(value) or moves_more):
            run.heap.write(value.attributes, "#device", device)
        elif name == "#children" and isinstance(value, Sequence):
            for child in value.items:
                child = resolve(child, run.path)
                if kind_of(child) == "module" and isinstance(child, Object):
                    _move_module(run, child, device, seen)
        elif isinstance(name, str) and not moves_more:
            _note_modules(run, module, name, value)  # what was appended to a list of its own


def devices_of_parts(run: Run, module: Value, depth: int = 0) -> tuple[Value, ...]:
    """Where the innermost parts of a module are; its own device where no parts are known. Of
    several modules, the one that there is by default."""
    if isinstance(module, Either) and module.default is not None:
        chosen = module.yes if module.default else module.no
        return devices_of_parts(run, resolve(chosen, run.path), depth)
    if not isinstance(module, Object) or depth > 8:
        return ()
    found: list[Value] = []
    for name, part in module.attributes.items():
        if isinstance(name, str) and name.startswith("#"):
            continue
        part = resolve(part, run.path)
        if is_stateless(part):
            continue
        if kind_of(part) == "module":
            found.extend(devices_of_parts(run, part, depth + 1))
        elif isinstance(part, Unknown) or (
            isinstance(part, Object) and "#moved" in part.attributes
        ):
            found.append(device_of(run, part))
    return tuple(found) or (device_of(run, module),)


def is_state(value: Value) -> bool:
    """Whether a tensor is a parameter or buffer, which moves with its module."""
    return isinstance(value, Object) and "#state" in value.attributes


def library_module(run: Run, name: str, arguments: Arguments, place: Place) -> Object:
    """An instance of one of torch.nn's own modules; containers hold their children."""
    module = Object(Name(name), {}, place)
    new_module(run, module)
    device = arguments.named.get("device")
    if device is not None:
        module.attributes["#device"] = settled(run, as_device(device, run.path))
    which = run.apis.tensors(name)
    if which == "none":
        module.attributes["#stateless"] = Const(True)
    elif which == "given":
        _keep_given(run, module, arguments)
    children: list[Value] = []
    complete = not arguments.open
    for value in arguments.positional:
        value = resolve(value, run.path)
        if isinstance(value, Sequence):
            children.extend(value.items)
            complete = complete and not value.open
        elif isinstance(value, Dict):
            children.extend(value.entries.values())
            module.attributes.update(value.entries)
        else:
            children.append(value)
    held = tuple(child for child in children if kind_of(resolve(child, run.path)) == "module")
    if held:
        module.attributes["#children"] = Sequence(held, open=not complete)
        module.attributes.update(enumerate(held))
        if any(device_of(run, child) is not CPU for child in held):
            module.attributes["#device"] = device_of(run, held[0])
    return module


_LISTS = ("torch.nn.ModuleList", "torch.nn.Sequential")


def modules_in(run: Run, value: Object) -> Sequence | None:
    """What a loop over nn.ModuleList(...) gets."""
    children = resolve(value.attributes.get("#children", MISSING), run.path)
    if isinstance(children, Sequence) and _is_list(run, value):
        return children
    return None


def added_to_list(run: Run, module: Object, name: str, arguments: Arguments) -> None:
    """self.blocks.append(Block()): it moves with the others from now on."""
    before = resolve(module.attributes.get("#children", Sequence(())), run.path)
    if not _is_list(run, module) or not isinstance(before, Sequence):
        return
    given = resolve(arguments.get(0) or Unknown(), run.path)
    added = given if isinstance(given, Sequence) else Sequence((given,))
    known = name != "insert" and all(
        kind_of(resolve(child, run.path)) == "module" for child in added.items
    )
    items = (*before.items, *added.items) if known else before.items
    for position in range(len(before.items), len(items)):
        run.heap.write(module.attributes, position, items[position])
    is_open = before.open or added.open or not known
    run.heap.write(module.attributes, "#children", Sequence(items, open=is_open))


def _is_list(run: Run, module: Object) -> bool:
    return isinstance(module.cls, Name) and run.apis.canonical(module.cls.name) in _LISTS


def _keep_given(run: Run, module: Object, arguments: Arguments) -> None:
    """A loss has the weights that it is given, and else no tensors."""
    given = [resolve(value, run.path) for value in _all_of(arguments)]
    tensors = [value for value in given if kind_of(value) == "tensor"]
    if tensors:
        module.attributes["#device"] = device_of(run, tensors[0])
    elif arguments.open or not all(isinstance(value, Const) for value in given):
        module.attributes["#device"] = Unknown()
    else:
        module.attributes["#stateless"] = Const(True)


def _all_of(arguments: Arguments) -> tuple[Value, ...]:
    return (*arguments.positional, *arguments.named.values())


def is_stateless(value: Value) -> bool:
    return isinstance(value, Object) and "#stateless" in value.attributes


def object_attribute(run: Run, receiver: Object, name: str) -> Value | None:
    """Attributes every tensor and module has: .device, .parameters ..."""
    if name == "device" and "#device" in receiver.attributes:
        return device_of(run, receiver)
    if name in ("weight", "bias") and kind_of(receiver) == "module":
        state = new_tensor(
            run,
            device_of(run, receiver),
            receiver.origin or _nowhere(run),
            state=Const("parameter"),
        )
        run.heap.write(receiver.attributes, name, state)  # it moves with the module
        return state
    if name in ("data", "grad", "T", "weight", "bias") and "#device" in receiver.attributes:
        return new_tensor(run, device_of(run, receiver), receiver.origin or _nowhere(run))
    return None


def _nowhere(run: Run) -> Place:
    return Place(run.frame.module, run.frame.module.tree())


def member_of(value: Value) -> Value | None:
    """One of model.parameters(), which lives where the model lives."""
    if isinstance(value, Object) and "#members" in value.attributes:
        return value.attributes["#members"]
    return None


def attribute_was_set(run: Run, receiver: Object, name: str, value: Value, place: Place) -> None:
    """Notes a tensor that a module keeps as a plain attribute: it stays when the module moves."""
    if kind_of(receiver) != "module":
        return
    value = resolve(value, run.path)
    if isinstance(value, Object) and kind_of(value) == "tensor" and not is_state(value):
        event = run.record(
            "keep",
            name,
            place,
            device=device_of(run, value),
            owner=receiver,
            value=value,
            what="this tensor",
            instead=f'self.register_buffer("{name}", ..., persistent=False), which moves with the '
            "module",
        )
        run.heap.write(value.attributes, "#kept", Const(event))
    _note_modules(run, receiver, name, value, place)


def _note_modules(
    run: Run, owner: Object, name: str, container: Value, place: Place | None = None
) -> None:
    """Notes modules in a list or dictionary, which stay when their owner moves: where that was
    set, or where each was made."""
    if not isinstance(container, (Dict, Sequence)):
        return
    for held in held_in(container):
        where = place or held.origin
        if kind_of(held) != "module" or is_stateless(held) or "#kept" in held.attributes:
            continue
        if where is None:
            continue
        event = run.record(
            "keep",
            name,
            where,
            device=device_of(run, held),
            owner=owner,
            value=held,
            what="a module",
            instead="keep submodules in nn.ModuleList or nn.ModuleDict",
        )
        run.heap.write(held.attributes, "#kept", Const(event))


def called_module(run: Run, receiver: Object, arguments: Arguments, place: Place) -> Value:
    """model(x) of a library's module: the inputs have to be where the module is."""
    if kind_of(receiver) == "module":
        children = receiver.attributes.get("#children")
        if isinstance(children, Sequence) and arguments.positional:
            result: Value = arguments.positional[0]
            for child in children.items:
                result = call(run, child, Arguments((result,)), place)
            return result
        tensors = [
            value
            for argument in _all_of(arguments)
            for value in held_in(resolve(argument, run.path))  # lstm(x, (hidden, cell))
            if kind_of(value) != "module"
        ]
        if isinstance(receiver.cls, Name) and run.apis.mixes_devices(receiver.cls.name):
            tensors = tensors[:1]
        if is_stateless(receiver):
            for value in tensors[1:]:
                meet(run, tensors[0], value, place)
            return _where_it_came_from(run, arguments, place)
        for value in tensors:
            meet(run, value, receiver, place)
        return new_tensor(run, device_of(run, receiver), place)
    return Unknown()


def _where_it_came_from(run: Run, arguments: Arguments, place: Place) -> Value:
    """relu(x) is where x is, and a loss where its first argument is."""
    given = _all_of(arguments)

    def result(value: Value) -> Value:
        if not isinstance(value, Object) or kind_of(value) != "tensor":
            return Unknown()
        if len(given) == 1:
            return Object(value.cls, dict(value.attributes), place)
        return new_tensor(run, device_of(run, value), place)

    return map_value(given[0], run.path, result) if given else Unknown()


def combine(run: Run, left: Value, right: Value, place: Place) -> Value | None:
    """The result of an operation on two tensors, None where neither is known to be one."""
    left, right = resolve(left, run.path), resolve(right, run.path)
    if "tensor" not in (kind_of(left), kind_of(right)):
        return None
    meet(run, left, right, place)
    known = left if kind_of(left) == "tensor" else right
    marks = {}
    if isinstance(known, Object) and kind_of(left) != kind_of(right):
        names = ("scalar", "made", "kept")
        marks = {n: known.attributes[f"#{n}"] for n in names if f"#{n}" in known.attributes}
    return new_tensor(run, device_of(run, known), place, **marks)


def meet(run: Run, left: Value, right: Value, place: Place) -> None:
    """Notes two tensors that take part in one operation, for each device that one of them may be
    on. Where both depend on something, they need not meet in every combination."""
    if isinstance(left, Either) or isinstance(right, Either):
        one, other = (left, right) if isinstance(left, Either) else (right, left)
        for each in _all_on_cpu(run, one):
            meet(run, each, other, place)
    if not isinstance(left, Object) or not isinstance(right, Object):
        return
    a, b = device_of(run, left), device_of(run, right)
    if isinstance(a, Either) and isinstance(b, Either):
        return
    owners = (left.attributes.get("#owner"), right.attributes.get("#owner"))
    for device, path in leaves(a, run.path):
        for other, at in leaves(b, path):
            if isinstance(device, Device) and isinstance(other, Device):
                run.record(
                    "meet",
                    "operation",
                    place,
                    device=device,
                    path=at,
                    other=other,
                    left=left,
                    right=right,
                    owners=owners,
                )


def _all_on_cpu(run: Run, value: Value) -> list[Value]:
    """The tensors that a value may be, if they are on the CPU whichever it is."""
    found = [leaf for leaf, _ in leaves(value, run.path)]
    on_cpu = all(kind_of(leaf) == "tensor" and is_cpu(device_of(run, leaf)) for leaf in found)
    return found if on_cpu else []


def device_of_input(run: Run) -> str | None:
    """The code for the device that the function which is being run works on: that of a tensor it
    gets, or in a module's method that of its parameters."""
    frame = run.frame
    if frame.function is None:
        return None
    for parameter in frame.function.parameters.params:
        name = parameter.name.value
        value = frame.scope.variables.get(name)
        if value is not None and kind_of(resolve(value, run.path)) == "tensor":
            return f"{name}.device"
    if frame is run.in_method_of_module() and frame.function.parameters.params:
        return _device_of_state(run, frame.function.parameters.params[0].name.value, frame.receiver)
    return None


def _device_of_state(run: Run, name: str, module: Value | None) -> str | None:
    """The code for the device of a module's own parameter or buffer, or of those below it."""
    if not isinstance(module, Object):
        return None
    below = False
    for attribute, value in module.attributes.items():
        value = resolve(value, run.path)
        if isinstance(attribute, str) and attribute.isidentifier() and is_state(value):
            return f"{name}.{attribute}.device"
        below = below or (kind_of(value) == "module" and not is_stateless(value))
    return f"next({name}.parameters()).device" if below else None


def held_in(value: Value) -> list[Object]:
    """The tensors and modules in a value and the containers it is made of."""
    found: list[Object] = []
    stack = [value]
    while stack and len(found) < 32:
        item = stack.pop()
        if isinstance(item, Object):
            found.append(item)
        elif isinstance(item, Sequence):
            stack.extend(item.items)
        elif isinstance(item, Dict):
            stack.extend(item.entries.values())
    return found
