"""Tensors and modules: where they live, and which of them meet."""

from __future__ import annotations

from ddpdoctor.lint.devices import is_cpu
from ddpdoctor.lint.paths import leaves, map_value, resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.trace import Event
from ddpdoctor.lint.values import (
    MISSING,
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


def is_state(value: Value) -> bool:
    """Whether a tensor is a parameter or buffer, which moves with its module."""
    return isinstance(value, Object) and "#state" in value.attributes


def is_stateless(value: Value) -> bool:
    return isinstance(value, Object) and "#stateless" in value.attributes


def making(value: object) -> Event | None:
    """The "make" event of a tensor, or of what it was computed from, in a method of a module."""
    mark = value.attributes.get("#made") if isinstance(value, Object) else None
    event = mark.value if isinstance(mark, Const) else None
    return event if isinstance(event, Event) and event.detail["method"] is not None else None


def member_of(value: Value) -> Value | None:
    """One of model.parameters(), which lives where the model lives."""
    if isinstance(value, Object) and "#members" in value.attributes:
        return value.attributes["#members"]
    return None


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
    seen: set[int] = set()  # a list may hold itself
    stack = [value]
    while stack and len(found) < 32:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Object):
            found.append(item)
        elif isinstance(item, Sequence):
            stack.extend(item.items)
        elif isinstance(item, Dict):
            stack.extend(item.entries.values())
    return found
