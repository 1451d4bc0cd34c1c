"""Repairs that bind a process to its own GPU: one line before CUDA starts cures most findings."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.assignments import assigned, blocks_around, may_be_unset, names, root
from ddpdoctor.lint.local_ranks import Code, library_name, own_device
from ddpdoctor.lint.reach import View
from ddpdoctor.lint.repairs import InsertBefore, Remove, Repair, path_to, statement_around
from ddpdoctor.lint.sources import Module
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Index, Place


def bind_process(trace: Trace, group: Event) -> Repair | None:
    """Bind the process before its process group opens, and before anything uses CUDA: move the
    line that binds it too late, or write one."""
    if "repair" not in group.detail:  # all findings of a process ask for it
        group.detail["repair"] = _binding(trace, group)
    repair: Repair | None = group.detail["repair"]
    return repair


def _binding(trace: Trace, group: Event) -> Repair | None:
    if not group.views:
        return None
    if group.detail.get("framework"):
        return _behind_framework(trace, group)
    uses = [event for event in trace.before(group) if _uses_current_device(trace, event)]
    point = _point(uses[0], group) if uses else (group.place, group.views[-1])
    late = next((bind for bind in trace.of("bind") if _binds_late(trace, group, bind)), None)
    if late is not None:
        moved = _moved(trace, late, point)
        if moved is not None:
            return moved
    if point is not None and not uses and not _knows_rank(point[1]):
        point = _later_point(trace, group) or point
    if point is None:
        return None
    place, view = point
    call = _set_device(trace, group, place, view)
    if call is None:
        return None
    imports = call.imports
    guard = None
    if _may_be_on_cpu(trace, group):
        guard, more = library_name(place, "torch.cuda.is_available")
        guard, imports = f"{guard}()", (*imports, *more)
    return Repair(
        "Bind every rank to its own GPU before anything uses CUDA",
        (InsertBefore(place, call.text, guard),),
        safe=True,
        imports=_once(imports),
    )


def _behind_framework(trace: Trace, group: Event) -> Repair | None:
    """Bind the process behind a call that opens the group and leaves the GPU to the program, by
    the library's own function for the local rank."""
    function = group.detail["api"].facts.get("local_rank")
    later = trace.events[trace.events.index(group) + 1 :]
    mine = (event for event in later if event.process is group.process)
    use = next((event for event in mine if _uses_current_device(trace, event)), None)
    point = None if use is None else _point(use, group)
    if function is None or point is None:
        return None
    place, view = point
    rank, of_rank = library_name(place, function)
    call, of_call = library_name(place, "torch.cuda.set_device")
    return Repair(
        "Bind every rank to its own GPU before anything uses CUDA",
        (InsertBefore(place, f"{call}({view.rank or f'{rank}()'})"),),
        safe=True,
        imports=_once((*of_rank, *of_call)),
    )


def bind_first_group(trace: Trace, event: Event) -> Repair | None:
    """The line that would cure an un-indexed use: where its process group is opened."""
    for group in trace.groups(event):
        if group.process is event.process and not _binds_itself(group):
            return bind_process(trace, group)
    return None


def _binds_itself(group: Event) -> bool:
    return bool(group.detail.get("framework")) and "local_rank" not in group.detail["api"].facts


def _binds_late(trace: Trace, group: Event, bind: Event) -> bool:
    """Whether a rank binds itself, but only after the group is open or CUDA in use."""
    if bind.process is not group.process or bind.detail.get("block"):
        return False
    indices = trace.indices(bind, bind.device)
    own = bool(indices) and all(isinstance(index, Index) for index in indices)
    return own and trace.binding(bind) == "unbound" and group in trace.groups(bind)


def _moved(trace: Trace, bind: Event, point: tuple[Place, View] | None) -> Repair | None:
    """Move the line that binds, before the process group if that can be, else before the first
    use of CUDA."""
    uses = [event for event in trace.before(bind) if _uses_current_device(trace, event)]
    for target in (point, _point(uses[0], bind) if uses else None):
        if target is None:
            continue
        code = _code_to_move(bind, target[0])
        if code is not None:
            return Repair(
                "Bind every rank to its own GPU before anything uses CUDA",
                (InsertBefore(target[0], code), Remove(_line_of(bind.place))),
            )
    return None


def bind_thread(trace: Trace, event: Event) -> Repair | None:
    """Bind the thread before it uses the current device."""
    point = _thread_start(event)
    call = None if point is None else _set_device(trace, event, *point)
    if point is None or call is None:
        return None
    return Repair(
        "Bind the thread to the rank's GPU",
        (InsertBefore(point[0], call.text),),
        imports=_once(call.imports),
    )


def _thread_start(event: Event) -> tuple[Place, View] | None:
    """The first statement that the thread runs in a function, and what can be named there. A
    lambda has none, but the function that it calls."""
    for view in event.views[event.process.depth :]:
        function = view.frame.function
        if function is None or not isinstance(function.body, cst.IndentedBlock):
            continue
        lines = function.body.body
        first = lines[1] if len(lines) > 1 and _is_docstring(lines[0]) else lines[0]
        made = assigned(function.body)
        rank = view.rank if view.rank and root(view.rank) not in made else None
        device = view.device if view.device and root(view.device) not in made else None
        return Place(view.frame.module, first), View(view.frame, rank, device)
    return None


def _is_docstring(line: cst.CSTNode) -> bool:
    return (
        isinstance(line, cst.SimpleStatementLine)
        and isinstance(line.body[0], cst.Expr)
        and isinstance(line.body[0].value, cst.BaseString)
    )


def _set_device(trace: Trace, event: Event, place: Place, view: View) -> Code | None:
    function, imports = library_name(place, "torch.cuda.set_device")
    device = own_device(trace, event, place, view)
    return device and Code(f"{function}({device.text})", (*device.imports, *imports))


def _point(first: Event, later: Event) -> tuple[Place, View] | None:
    """The place just before an event in the innermost frame that both events are reached from,
    and that frame as it is there."""
    depth = 0
    for mine, theirs in zip(first.views, later.views, strict=False):
        if mine.frame is not theirs.frame:
            break
        depth += 1
    while depth < len(first.views) and first.views[depth].frame.call is None:
        depth += 1  # the body of an imported module is nobody's call
    if depth == 0:
        return None
    call = first.views[depth].frame.call if depth < len(first.views) else first.place
    return None if call is None else _before_loops(call, first.views[depth - 1])


def _before_loops(place: Place, view: View) -> tuple[Place, View]:
    """The place before the loops of its function, as far as they do not find the local rank."""
    name = root(view.rank or view.device or "")
    for body, at in blocks_around(place):
        holder = body[at]
        if isinstance(holder, (cst.For, cst.While)):
            if name in assigned(holder):
                break
            place = Place(place.module, holder)
    return place, view


def _later_point(trace: Trace, group: Event) -> tuple[Place, View] | None:
    """Behind the line that finds the local rank, where that stands between the process group and
    the first need of a current device. That is early enough, and one rule for the local rank."""
    for event in trace.events[trace.events.index(group) + 1 :]:
        if event.process is not group.process or group not in trace.groups(event):
            continue
        needs = event.kind in ("barrier", "shard") and trace.needs_current_device(event)
        if not needs and not _uses_current_device(trace, event):
            continue
        point = _point(event, group)
        if point is None or not _knows_rank(point[1]):
            return None
        place, view = point
        name = root(view.rank or view.device or "")
        if may_be_unset(place, name):
            return None
        for body, at in blocks_around(place):
            upto = pairwise(body[: at + 1])
            behind = [following for line, following in upto if name in assigned(line)]
            if behind:
                return Place(place.module, behind[-1]), view
        return place, view
    return None


def _knows_rank(view: View) -> bool:
    return view.rank is not None or view.device is not None


def _uses_current_device(trace: Trace, event: Event) -> bool:
    if event.process.kind == "thread":
        return False
    if event.kind in ("place", "create"):
        return trace.unindexed(event)
    if event.kind == "current":
        return trace.needs_current_device(event)
    return (
        event.kind in ("context", "objects")
        and event.device is None
        and not event.detail.get("only_started")
        and trace.needs_current_device(event)
    )


def _may_be_on_cpu(trace: Trace, group: Event) -> bool:
    """Whether the process group can also open on a machine without GPUs."""
    given = group.detail["api"].argument("backend", group.arguments)
    backends = trace.alternatives(group, given)
    if any(not (isinstance(leaf, Const) and leaf.value in (None, "nccl")) for leaf in backends):
        return True
    asks = any(query.name == "torch.cuda.is_available" for query in trace.of("query"))
    return asks and (
        all(isinstance(leaf, Const) and leaf.value is None for leaf in backends)
        or any(leaf.origin is not None and _names_gloo(leaf.origin.module) for leaf in backends)
    )


def _names_gloo(module: Module) -> bool:
    """Whether the file that names NCCL has another backend to choose. Wherever it may, the line
    asks for a GPU, which does no harm on one."""
    return b"gloo" in module.data()


def _code_to_move(bind: Event, place: Place) -> str | None:
    """The line that binds, if it can stand before a place: in its block, on a line of its own,
    and without a name that the lines between give a value to."""
    module = bind.place.module
    line = _line_of(bind.place).node
    target = statement_around(place.module, place.node)
    if module is not place.module or not isinstance(line, cst.SimpleStatementLine):
        return None
    block = path_to(module, line)[-2]
    if not isinstance(block, (cst.Module, cst.IndentedBlock)) or len(line.body) != 1:
        return None
    body: list[cst.CSTNode] = list(block.body)
    if not isinstance(line.body[0], cst.Expr) or line is module.tree().body[-1]:
        return None
    if target not in body or body.index(target) >= body.index(line):
        return None
    between = body[body.index(target) : body.index(line)]
    if names(line) & {name for statement in between for name in assigned(statement)}:
        return None
    comment = line.trailing_whitespace.comment
    code = module.tree().code_for_node(line.body[0])
    return code if comment is None else f"{code}  {comment.value}"


def _line_of(place: Place) -> Place:
    return Place(place.module, statement_around(place.module, place.node))


def _once(imports: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(imports))
