"""Repairs that put a tensor or a module where it has to be: on the input's device, in a buffer,
on the rank's GPU before it is wrapped."""

from __future__ import annotations

import libcst as cst

from ddpdoctor.lint.assignments import can_stand_at, is_one_of_several
from ddpdoctor.lint.local_ranks import Code, library_name, own_rank_at
from ddpdoctor.lint.repairs import AddArgument, InsertBefore, Repair, Replace, path_to
from ddpdoctor.lint.rewrites import argument_of, code_of
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Object, Place, Value


def device_of_input(made: Event) -> Repair | None:
    """Make a tensor of forward where the input is."""
    if not isinstance(made.place.node, cst.Call) or made.detail["input"] is None:
        return None
    return Repair(
        "Make it where the input is", (_on_device(made, made.detail["input"]),), safe=True
    )


def map_to_cpu(trace: Trace, load: Event, keyword: str) -> Repair | None:
    """Load a checkpoint to the CPU: by the argument, or where its None was written."""
    message = f'Load to the CPU with {keyword}="cpu"'
    mapping = load.detail["map"]
    if mapping is None:
        node = load.place.node
        if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
            return None  # load(file, **options): elsewhere the mapping may be among them
        return Repair(message, (AddArgument(load.place, f'{keyword}="cpu"'),), safe=True)
    written = {leaf.origin for leaf in trace.alternatives(load, mapping)}
    place = written.pop()
    if written or place is None or not isinstance(place.node, cst.Name):
        return None
    return Repair(message, (Replace(place, '"cpu"'),))


def on_gpu(trace: Trace, event: Event, tensor: Value | None) -> Repair | None:
    """Make the tensor of a collective on the rank's GPU: the current device if it is that."""
    made = tensor.attributes.get("#made") if isinstance(tensor, Object) else None
    if not isinstance(made, Const) or made.origin is None:
        return None
    for make in trace.of("make"):
        if make.place == made.origin:
            if is_one_of_several(made.origin):
                return None  # the ranks that take the other branch need the same repair
            bound = trace.binding(make) == "bound"
            rank = Code('"cuda"') if bound else own_rank_at(trace, event, made.origin)
            if rank is None:
                return None
            return Repair(
                "Make it on the rank's GPU", (_on_device(make, rank.text),), imports=rank.imports
            )
    return None


def _on_device(made: Event, device: str) -> AddArgument | Replace:
    if made.detail["takes_device"]:
        return AddArgument(made.place, f"device={device}")
    return Replace(made.place, f"{code_of(made.place)}.to({device})")


def register_buffer(keep: Event) -> Repair | None:
    """`self.x = value` becomes `self.register_buffer("x", value, persistent=False)`; a literal
    that holds modules becomes a ModuleDict or ModuleList."""
    module, target = keep.place.module, keep.place.node
    path = reversed(path_to(module, target))
    assignment = next((node for node in path if isinstance(node, cst.BaseSmallStatement)), None)
    if not isinstance(assignment, (cst.Assign, cst.AnnAssign)) or assignment.value is None:
        return None
    if isinstance(assignment, cst.Assign) and len(assignment.targets) != 1:
        return None
    value = Place(module, assignment.value)
    if keep.detail["what"] != "this tensor":
        kinds = {cst.Dict: "ModuleDict", cst.List: "ModuleList"}
        kind = kinds.get(type(value.node))
        if kind is None:
            return None
        name, imports = library_name(keep.place, f"torch.nn.{kind}")
        code = f"{name}({code_of(value)})"
        return Repair(f"Keep the modules in a {kind}", (Replace(value, code),), imports=imports)
    if not isinstance(target, cst.Attribute):
        return None
    owner = code_of(Place(module, target.value))
    code = f'{owner}.register_buffer("{target.attr.value}", {code_of(value)}, persistent=False)'
    return Repair("Keep it as a buffer", (Replace(Place(module, assignment), code),))


def move_before(load: Event, move: Event) -> Repair | None:
    """Move a module before an optimizer's state is loaded, by the call that moves it later."""
    node = move.place.node
    if not isinstance(node, cst.Call) or not can_stand_at(move.place, load.place):
        return None
    if not isinstance(node.func, cst.Attribute) or not isinstance(
        node.func.value, (cst.Name, cst.Attribute)
    ):
        return None
    return Repair(
        "Move the module first", (InsertBefore(load.place, code_of(move.place)),), safe=False
    )


def move_and_wrap(trace: Trace, wrap: Event, device: Place | None = None) -> Repair | None:
    """Wrap a module that is on its GPU: on this device if it has a name there, else on
    device_ids[0]."""
    module = argument_of(wrap.place, "module", position=0)
    if module is None:
        return None
    if device is None or not can_stand_at(device, wrap.place):
        device = first_device(wrap)
    where = own_rank_at(trace, wrap, module) if device is None else Code(code_of(device))
    if where is None:
        return None
    code = code_of(module)
    if not isinstance(module.node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        code = f"({code})"
    return Repair(
        "Move the module to its GPU before it is wrapped",
        (Replace(module, f"{code}.to({where.text})"),),
        imports=where.imports,
    )


def without_device_ids(wrap: Event) -> Repair | None:
    """Leave device_ids and output_device out, as a module on several GPUs needs it."""
    given = [
        argument_of(wrap.place, name, position=position)
        for position, name in enumerate(("device_ids", "output_device"), 1)
    ]
    changes = tuple(Replace(place, "None") for place in given if place is not None)
    return Repair("Leave the devices to the module", changes) if changes else None


def first_device(wrap: Event) -> Place | None:
    """What stands in device_ids=[...], if one device does."""
    given = argument_of(wrap.place, "device_ids", position=1)
    if given is None or not isinstance(given.node, (cst.List, cst.Tuple)):
        return None
    elements = given.node.elements
    return Place(given.module, elements[0].value) if len(elements) == 1 else None
