"""Repairs that bind a process to its own GPU: one line before CUDA starts cures most findings."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ddpdoctor.lint.local_ranks import library_name, own_device
from ddpdoctor.lint.reach import View
from ddpdoctor.lint.repairs import InsertBefore, Remove, Repair, path_to, statement_around
from ddpdoctor.lint.trace import Event, Trace
from ddpdoctor.lint.values import Const, Index, Place
from ddpdoctor.lint.walking import children


def bind_process(trace: Trace, group: Event) -> Repair | None:
    """Bind the process before its process group opens, and before anything uses CUDA: move the
    line that binds it too late, or write one."""
    if "repair" not in group.detail:  # all findings of a process ask for it
        group.detail["repair"] = _binding(trace, group)
    repair: Repair | None = group.detail["repair"]
    return repair


def _binding(trace: Trace, group: Event) -> Repair | None:
    if group.detail.get("framework") or not group.views:
        return None
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
    code, imports = _set_device(trace, place, view)
    guard = None
    if _may_be_on_cpu(trace, group):
        guard, more = library_name(place, "torch.cuda.is_available")
        guard, imports = f"{guard}()", (*imports, *more)
    return Repair(
        "Bind every rank to its own GPU before anything uses CUDA",
        (InsertBefore(place, code, guard),),
        safe=True,
        imports=_once(imports),
    )


def bind_first_group(trace: Trace, event: Event) -> Repair | None:
    """The line that would cure an un-indexed use: where its process group is opened."""
    for group in trace.groups(event):
        if group.process is event.process and not group.detail.get("framework"):
            return bind_process(trace, group)
    return None


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
    if not event.views:
        return None
    code, imports = _set_device(trace, event.place, event.views[-1])
    return Repair(
        "Bind the thread to the rank's GPU",
        (InsertBefore(event.place, code),),
        imports=_once(imports),
    )


def _set_device(trace: Trace, place: Place, view: View) -> tuple[str, tuple[str, ...]]:
    function, imports = library_name(place, "torch.cuda.set_device")
    device = own_device(place, trace.local_rank_variable, view)
    return f"{function}({device.text})", (*device.imports, *imports)


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
    return None if call is None else (call, first.views[depth - 1])


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
        name = (view.rank or view.device or "").partition(".")[0].partition("[")[0]
        block, target = _block_of(place)
        for line, following in pairwise(block[: block.index(target) + 1]):
            if name in _assigned(line):
                place = Place(place.module, following)
        return place, view
    return None


def _knows_rank(view: View) -> bool:
    return view.rank is not None or view.device is not None


def _block_of(place: Place) -> tuple[list[cst.CSTNode], cst.CSTNode]:
    """The statements around a place, and the one among them that holds it."""
    statement = statement_around(place.module, place.node)
    block = path_to(place.module, statement)[-2]
    if isinstance(block, (cst.Module, cst.IndentedBlock)):
        return list(block.body), statement
    return [statement], statement


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
    return any(
        not (isinstance(leaf, Const) and leaf.value in (None, "nccl"))
        for leaf in trace.alternatives(group, given)
    )


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
    if _names(line) & {name for statement in between for name in _assigned(statement)}:
        return None
    comment = line.trailing_whitespace.comment
    code = module.tree().code_for_node(line.body[0])
    return code if comment is None else f"{code}  {comment.value}"


def _line_of(place: Place) -> Place:
    return Place(place.module, statement_around(place.module, place.node))


def _names(node: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if isinstance(inner, cst.Name):
            names.add(inner.value)
        stack.extend(children(inner))
    return names


def _assigned(node: cst.CSTNode) -> set[str]:
    """The names that a statement may give a value to, attributes counted under their object."""
    names: set[str] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if isinstance(
            inner, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For)
        ):
            names |= _names(inner.target)
        elif isinstance(inner, (cst.FunctionDef, cst.ClassDef)):
            names.add(inner.name.value)
        elif isinstance(inner, (cst.Import, cst.ImportFrom, cst.AsName)):
            names |= _names(inner)
        stack.extend(children(inner))
    return names


def _once(imports: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(imports))
