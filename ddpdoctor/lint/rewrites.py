"""Repairs that write the rank's own GPU in place of another."""

from __future__ import annotations

import libcst as cst

from ddpdoctor.lint.bindings import bind_first_group
from ddpdoctor.lint.local_ranks import (
    Code,
    from_environment,
    is_spawned,
    library_name,
    own_rank_at,
    same_statement,
)
from ddpdoctor.lint.named_constants import rank_where_read
from ddpdoctor.lint.repairs import AddArgument, Change, Repair, Replace, path_to
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Device, Dict, Place, Unknown, Value


def write_device(trace: Trace, event: Event, written: Place) -> Repair | None:
    """Write the rank's own device in place of a constant one."""
    node = written.node
    if isinstance(node, cst.SimpleString) and node.evaluated_value in _CARDS:
        if trace.binding(event) == "bound":
            code = f"{node.quote}cuda{node.quote}"
            return Repair('Use the current device, "cuda"', (Replace(written, code),))
        return _write_text(trace, event, written)
    return write_index(trace, event, written)


_CARDS = tuple(f"cuda:{number}" for number in range(64))


def write_index(trace: Trace, event: Event, written: Place, *, safe: bool = False) -> Repair | None:
    """Write the local rank in place of a constant index. safe: one process keeps that index."""
    node = written.node
    if isinstance(node, cst.SimpleString) and node.evaluated_value in _CARDS:
        return _write_text(trace, event, written)
    if isinstance(node, cst.Call):
        if _makes_option(node):
            return None if is_spawned(event) else environment_default(trace, written, safe=False)
        asks = any(query.place == written for query in trace.of("current"))
        return bind_first_group(trace, event) if asks else None
    if not isinstance(node, cst.Integer):
        return None
    rank = own_rank_at(trace, event, written) or _current(trace, event, written)
    if rank is None:
        return rank_where_read(trace, event, written)
    return Repair("Use the local rank", (Replace(written, rank.text),), safe, rank.imports)


def _current(trace: Trace, event: Event, written: Place) -> Code | None:
    """The GPU that a process is bound to, where it has no variable for it at hand."""
    if event.kind == "bind" or trace.binding(event) != "bound":
        return None
    if not same_statement(written, event.place):
        return None  # may be run before the process is bound
    function, imports = library_name(written, "torch.cuda.current_device")
    return Code(f"{function}()", imports)


_OPTIONS = ("add_argument", "add_option", "option", "Option")
_FLAG = "DEFINE_"  # absl's: the name, the default, ...


def _makes_option(call: cst.Call) -> bool:
    name = _last_name(call.func)
    return name in _OPTIONS or name.startswith(_FLAG)


def _write_text(trace: Trace, event: Event, written: Place) -> Repair | None:
    rank = own_rank_at(trace, event, written)
    if rank is None:
        return _bind_and_write(trace, event, written)
    inner = rank.within('"')
    code = f'f"cuda:{{{inner}}}"'
    return Repair("Use the rank's own GPU", (Replace(written, code),), imports=rank.imports)


def _bind_and_write(trace: Trace, event: Event, written: Place) -> Repair | None:
    """Bind the process where it has a variable for its GPU, and write "cuda" where it has none."""
    binding = bind_first_group(trace, event)
    if binding is None or event.kind == "bind" or binding.imports:
        return None
    return Repair(
        f'{binding.message}, and use the current device, "cuda"',
        (*binding.changes, Replace(written, '"cuda"')),
    )


def environment_default(trace: Trace, option: Place, *, safe: bool) -> Repair | None:
    """Let an option take its default from the variable that the launcher sets, and its old default
    where that is not set."""
    call = option.node
    if not isinstance(call, cst.Call) or not _makes_option(call):
        return None
    variable = trace.local_rank_variable
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if _last_name(call.func).startswith(_FLAG) and len(call.args) > 1:
        given.setdefault("default", call.args[1].value)
    changes: list[Change] = []
    if "default" in given:
        default = Place(option.module, given["default"])
        old = code_of(default)
        if variable in old:
            return None
        rank = from_environment(option, variable, "0" if old == "None" else old)
        changes.append(Replace(default, rank.text))
    else:
        rank = from_environment(option, variable)
        changes.append(AddArgument(option, f"default={rank.text}"))
    if "required" in given:
        changes.append(Replace(Place(option.module, given["required"]), "False"))
    return Repair(
        f"Take the default from the {variable} that the launcher sets",
        tuple(changes),
        safe=safe,
        imports=rank.imports,
    )


def write_local_rank(trace: Trace, event: Event, value: Value) -> Repair | None:
    """Write the local rank where a device has the global rank as its index."""
    written = None
    if isinstance(value, Device):
        if value.origin is not None:
            written = _index_in(_maker(value.origin))
        elif isinstance(event.detail.get("given"), Device):
            return None  # the current device: it is the binding that has to change
    if written is None:
        position = _POSITIONS.get(event.kind)
        argument = argument_of(event.place, *_DEVICE_ARGUMENTS, position=position)
        if argument is None:
            return None
        written = _index_in(argument) or argument
    rank = own_rank_at(trace, event, written)
    if rank is None:
        return None
    path = path_to(written.module, written.node)
    text = next((node for node in path if isinstance(node, cst.FormattedString)), None)
    code = rank.text if text is None else rank.within(text.quote[0])
    return Repair("Use the local rank", (Replace(written, code),), imports=rank.imports)


_DEVICE_ARGUMENTS = ("device_ids", "output_device", "device_id", "device", "map_location")
_POSITIONS = {"place": 0, "bind": 0, "context": 0, "default": 0, "load": 1, "wrap": 1}


def _maker(origin: Place) -> Place:
    """torch.device("cuda", i) for its "cuda", and anything else for itself."""
    path = path_to(origin.module, origin.node)
    call = path[-3] if len(path) > 2 and isinstance(path[-2], cst.Arg) else origin.node
    return Place(origin.module, call) if _last_name(call) == "device" else origin


def _index_in(place: Place) -> Place | None:
    """The index i in [i], torch.device("cuda", i), f"cuda:{i}" and the older ways to write that."""
    inner = _inner(place.node)
    if inner is None:
        return None
    further = _index_in(Place(place.module, inner)) if _last_name(place.node) == "device" else None
    return further or Place(place.module, inner)


def _inner(node: cst.CSTNode) -> cst.CSTNode | None:
    if isinstance(node, (cst.List, cst.Tuple)):
        return node.elements[0].value if len(node.elements) == 1 else None
    if isinstance(node, cst.FormattedString):
        parts = [part for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
        return parts[0].expression if len(parts) == 1 else None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.left, cst.SimpleString):
        return _inner(node.right) or node.right  # "cuda:%d" % i, "cuda:" + str(i)
    if isinstance(node, cst.Call) and node.args and _last_name(node) in ("device", "format", "str"):
        return node.args[-1].value if len(node.args) <= 2 else None
    return None


def write_number_of_entry(picked: Place) -> Repair | None:
    """Write local_rank in place of ids[local_rank], and of int(ids[local_rank])."""
    node = picked.node
    if not isinstance(node, cst.Subscript) or not isinstance(node.slice[0].slice, cst.Index):
        return None
    number = node.slice[0].slice.value
    if not isinstance(number, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return None
    *_, above, _, _ = path_to(picked.module, node)
    as_integer = isinstance(above, cst.Call) and _last_name(above) == "int" and len(above.args) == 1
    whole = Place(picked.module, above if as_integer else node)
    code = code_of(Place(picked.module, number))
    return Repair("Use the local rank as the index", (Replace(whole, code),))


def one_device_id(trace: Trace, wrap: Event) -> Repair | None:
    """Give a process its own GPU alone."""
    given = argument_of(wrap.place, "device_ids", position=1)
    if given is None:
        return None
    rank = own_rank_at(trace, wrap, given)
    if rank is None:
        return None
    return Repair(
        "Use the rank's own GPU", (Replace(given, f"[{rank.text}]"),), imports=rank.imports
    )


def map_to_own_gpu(trace: Trace, event: Event) -> Repair | None:
    """Load a model to the rank's own GPU: in a map that is written down, or in its place."""
    leaves = trace.alternatives(event, event.detail["map"])
    if len(leaves) == 1 and isinstance(leaves[0], Dict):
        targets = list(leaves[0].entries.values())
        found = [leaf for target in targets for leaf in trace.alternatives(event, target)]
        written = [leaf.origin for leaf in found if isinstance(leaf, (Const, Unknown, Device))]
        if len(written) == 1 and written[0] is not None:
            return write_index(trace, event, written[0])
        return None
    given = argument_of(event.place, "device_map") or _entry(leaves, "device_map")
    if given is None:
        return None
    rank = own_rank_at(trace, event, given)
    if rank is None:
        return None
    return Repair(
        "Load the model to the rank's own GPU",
        (Replace(given, f'{{"": {rank.text}}}'),),
        imports=rank.imports,
    )


def _entry(leaves: list[Value], keyword: str) -> Place | None:
    """The constant that a dictionary of keywords has under one of them: {keyword: "auto"}, or
    dict(keyword="auto")."""
    written = leaves[0].origin if len(leaves) == 1 else None
    if written is None:
        return None
    around = path_to(written.module, written.node)[-2]
    if isinstance(around, cst.DictElement):
        key = around.key
        named = isinstance(key, cst.SimpleString) and key.evaluated_value == keyword
    else:
        named = isinstance(around, cst.Arg) and _is_named(around, keyword)
    return written if named else None


def _is_named(argument: cst.Arg, keyword: str) -> bool:
    return argument.keyword is not None and argument.keyword.value == keyword


def argument_of(call: Place, *keywords: str, position: int | None = None) -> Place | None:
    """The argument of a call by one of its keywords, else by its position."""
    node = call.node
    if not isinstance(node, cst.Call):
        return None
    for arg in node.args:
        if arg.keyword is not None and arg.keyword.value in keywords:
            return Place(call.module, arg.value)
    plain = node.args[: (-1 if position is None else position) + 1]
    if position is None or len(plain) <= position:
        return None
    if any(arg.keyword is not None or arg.star for arg in plain):
        return None
    return Place(call.module, plain[-1].value)


def code_of(place: Place) -> str:
    return place.module.tree().code_for_node(place.node)


def _last_name(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Call):
        return _last_name(node.func)
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
