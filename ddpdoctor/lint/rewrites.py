"""Repairs that write the rank's own GPU, or another device, in place of what stands there."""

from __future__ import annotations

import libcst as cst

from ddpdoctor.lint.local_ranks import from_environment, own_rank_at
from ddpdoctor.lint.repairs import (
    AddArgument,
    Change,
    Repair,
    Replace,
    path_to,
    statement_around,
)
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Device, Place, Value


def write_device(trace: Trace, event: Event, written: Place) -> Repair | None:
    """Write the rank's own device in place of a constant one."""
    node = written.node
    if isinstance(node, cst.SimpleString) and node.evaluated_value in _CARDS:
        if trace.binding(event) == "bound":
            code = f"{node.quote}cuda{node.quote}"
            return Repair('Use the current device, "cuda"', (Replace(written, code),))
        return _write_text(event, written)
    return write_index(event, written)


_CARDS = tuple(f"cuda:{number}" for number in range(64))


def write_index(event: Event, written: Place) -> Repair | None:
    """Write the local rank in place of a constant index."""
    node = written.node
    if isinstance(node, cst.SimpleString) and node.evaluated_value in _CARDS:
        return _write_text(event, written)
    if not isinstance(node, cst.Integer):
        return None
    rank = own_rank_at(event, written)
    return Repair("Use the local rank", (Replace(written, rank.text),), imports=rank.imports)


def _write_text(event: Event, written: Place) -> Repair:
    rank = own_rank_at(event, written)
    code = f'f"cuda:{{{rank.in_text()}}}"'
    return Repair("Use the rank's own GPU", (Replace(written, code),), imports=rank.imports)


def environment_default(option: Place, *, safe: bool) -> Repair | None:
    """Let an option take its default from the LOCAL_RANK that torchrun sets, and its old default
    where that is not set."""
    call = option.node
    if not isinstance(call, cst.Call):
        return None
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    module = option.module
    changes: list[Change] = []
    if "default" in given:
        old = module.tree().code_for_node(given["default"])
        rank = from_environment(option, old if old != "None" else "0")
        changes.append(Replace(Place(module, given["default"]), rank.text))
    else:
        rank = from_environment(option)
        changes.append(AddArgument(option, f"default={rank.text}"))
    if "required" in given:
        changes.append(Replace(Place(module, given["required"]), "False"))
    return Repair(
        "Take the default from the LOCAL_RANK that torchrun sets",
        tuple(changes),
        safe=safe,
        imports=rank.imports,
    )


def local_index(event: Event, value: Value) -> Repair | None:
    """Write the local rank where a call takes the global rank as a GPU index."""
    origin = value.origin
    if isinstance(value, Device) and origin is not None:
        written = _index_in(origin)
        if written is not None:
            return _write_local(event, written)
    argument = argument_of(event.place, "device_ids", "output_device", "device_id", "device")
    if argument is None:
        return None
    node = argument.node
    if isinstance(node, (cst.List, cst.Tuple)) and len(node.elements) == 1:
        return _write_local(event, Place(argument.module, node.elements[0].value))
    inner = _index_in(argument)
    return _write_local(event, argument if inner is None else inner)


def _write_local(event: Event, written: Place) -> Repair:
    rank = own_rank_at(event, written)
    text = rank.text
    if any(isinstance(node, cst.FormattedString) for node in path_to(written.module, written.node)):
        text = rank.in_text()
    return Repair("Use the local rank", (Replace(written, text),), imports=rank.imports)


def _index_in(place: Place) -> Place | None:
    """The index in torch.device("cuda", i), torch.device(f"cuda:{i}") or f"cuda:{i}"."""
    node = place.node
    if isinstance(node, cst.FormattedString):
        inner = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
        return Place(place.module, inner[0].expression) if len(inner) == 1 else None
    if isinstance(node, cst.Call) and node.args:
        if not isinstance(node.func, (cst.Name, cst.Attribute)):
            return None
        name = node.func.value if isinstance(node.func, cst.Name) else node.func.attr.value
        if name != "device":
            return None
        if len(node.args) == 2:
            return Place(place.module, node.args[1].value)
        return _index_in(Place(place.module, node.args[0].value))
    return None


def argument_of(call: Place, *keywords: str) -> Place | None:
    """The argument of a call by its keywords, else the first one that has no keyword."""
    node = call.node
    if not isinstance(node, cst.Call):
        return None
    for keyword in keywords:
        for arg in node.args:
            if arg.keyword is not None and arg.keyword.value == keyword:
                return Place(call.module, arg.value)
    for arg in node.args:
        if arg.keyword is None and not arg.star:
            return Place(call.module, arg.value)
    return None


def device_of_input(made: Event) -> Repair | None:
    """Make a tensor of forward where the input is."""
    call = made.place.node
    if not isinstance(call, cst.Call) or made.detail.get("input") is None:
        return None
    code = f"device={made.detail['input']}.device"
    return Repair("Make it where the input is", (AddArgument(made.place, code),), safe=True)


def register_buffer(keep: Event) -> Repair | None:
    """`self.x = value` becomes `self.register_buffer("x", value, persistent=False)`."""
    module, target = keep.place.module, keep.place.node
    statement = statement_around(module, target)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    assignment = statement.body[0]
    if not isinstance(assignment, cst.Assign) or len(assignment.targets) != 1:
        return None
    if not isinstance(target, cst.Attribute) or keep.detail["what"] != "this tensor":
        return None
    value = module.tree().code_for_node(assignment.value)
    owner = module.tree().code_for_node(target.value)
    code = f'{owner}.register_buffer("{target.attr.value}", {value}, persistent=False)'
    return Repair("Keep it as a buffer", (Replace(Place(module, assignment), code),))
