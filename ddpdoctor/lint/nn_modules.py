"""torch.nn's modules and the program's: what moves with them, and where their calls make tensors
meet."""

from __future__ import annotations

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.paths import leaves, map_value, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.tensors import (
    CPU,
    default_device,
    device_of,
    held_in,
    is_state,
    is_stateless,
    kind_of,
    meet,
    new_tensor,
    settled,
)
from ddpdoctor.lint.values import (
    MISSING,
    Arguments,
    Class,
    Const,
    Dict,
    Either,
    Name,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)

_LISTS = ("torch.nn.ModuleList", "torch.nn.Sequential")


def new_module(run: Run, instance: Object) -> None:
    """Marks an object as an nn.Module whose parameters are on the default device."""
    instance.attributes["#device"] = default_device(run)
    instance.attributes["#kind"] = Const("module")
    run.modules_of_job.append(instance)


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
    if isinstance(receiver, Dict):  # of a library that gives it the method: it moves in place
        for name, value in list(receiver.entries.items()):
            run.heap.write(receiver.entries, name, moved(run, value, device, place))
        return receiver
    if isinstance(receiver, Object):
        run.heap.write(receiver.attributes, "#device", device)
        return receiver
    return Object(None, {"#device": device, "#moved": receiver}, place)


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
    _note_held(run, receiver, name, value, place)


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


def _move_module(run: Run, module: Object, device: Value, seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    run.heap.write(module.attributes, "#device", device)
    for name, value in list(module.attributes.items()):
        if not isinstance(name, str) or not name.startswith("#") or name == "#children":
            for part, _ in leaves(value, run.path):
                _move_part(run, module, name, part, device, seen)


def _move_part(
    run: Run, module: Object, name: object, part: Value, device: Value, seen: set[int]
) -> None:
    moves_more = isinstance(module.cls, Class) and class_attribute(module.cls, "_apply") is not None
    if kind_of(part) == "module" and isinstance(part, Object):
        _move_module(run, part, device, seen)
    elif isinstance(part, Object) and (is_state(part) or moves_more):
        run.heap.write(part.attributes, "#device", device)
    elif name == "#children" and isinstance(part, Sequence):
        for child in part.items:
            child = resolve(child, run.path)
            if kind_of(child) == "module" and isinstance(child, Object):
                _move_module(run, child, device, seen)
    elif isinstance(name, str) and not moves_more:
        _note_held(run, module, name, part)  # what was appended to a list of its own
    elif isinstance(part, (Dict, Sequence)):
        for held in held_in(part):
            run.heap.write(held.attributes, "#device", device)


def _note_held(
    run: Run, owner: Object, name: str, container: Value, place: Place | None = None
) -> None:
    """Notes modules and tensors in a list or dictionary, which stay when their owner moves: where
    that was set, or where each was made."""
    if not isinstance(container, (Dict, Sequence)):
        return
    for held in held_in(container):
        where = place or held.origin
        if where is None or "#kept" in held.attributes:
            continue
        if kind_of(held) == "module" and not is_stateless(held):
            what, instead = "a module", "keep submodules in nn.ModuleList or nn.ModuleDict"
        elif kind_of(held) == "tensor" and not is_state(held):
            where_in = "dictionary" if isinstance(container, Dict) else "list"
            what = f"a tensor in a {where_in}"
            instead = "register each with self.register_buffer(...)"
        else:
            continue
        event = run.record(
            "keep",
            name,
            where,
            device=device_of(run, held),
            owner=owner,
            value=held,
            what=what,
            instead=instead,
        )
        run.heap.write(held.attributes, "#kept", Const(event))


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


def _is_list(run: Run, module: Object) -> bool:
    return isinstance(module.cls, Name) and run.apis.canonical(module.cls.name) in _LISTS


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
