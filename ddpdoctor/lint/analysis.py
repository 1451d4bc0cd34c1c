"""From one program to its findings: run it, ask every rule, turn drafts into findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import libcst as cst

from ddpdoctor.findings import Finding, Fix, Related
from ddpdoctor.lint.apis import Apis
from ddpdoctor.lint.branches import Dead
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.commands import run_one_of
from ddpdoctor.lint.outcome import Judged
from ddpdoctor.lint.paths import Path
from ddpdoctor.lint.positions import Range, positions, source_text
from ddpdoctor.lint.project import Project
from ddpdoctor.lint.rule import Draft, all_rules
from ddpdoctor.lint.run import MOST_FILES, Frame, Run
from ddpdoctor.lint.sources import Module
from ddpdoctor.lint.statements import execute
from ddpdoctor.lint.suppressions import unsuppressed
from ddpdoctor.lint.values import Arguments, Const, Function, Object, Place


def judge(entry: Module, project: Project, apis: Apis, codes: Iterable[str]) -> Judged:
    """Runs a script in the abstract and applies the rules of these codes.

    Raises Unreadable where the script itself cannot be read.
    """
    run = trace_program(entry, project, apis)
    rules = all_rules()
    drafts = [draft for code in codes for draft in rules[code](run.trace)]
    return Judged(
        tuple(finish(drafts)),
        any(True for _ in run.trace.of("group", "wrap", "shard")),
        tuple(module.path for module in project.reached() if module.state == "done"),
        tuple((module.path, problem) for module, problem in run.problems.items()),
        run.exhausted or run.files > MOST_FILES,
    )


def trace_program(entry: Module, project: Project, apis: Apis) -> Run:
    """The abstract run of a script, as rank k > 0. Raises Unreadable.

    It is run as torchrun would start it, and again without torchrun's variables where it turns
    out that the program relies on those of another launcher.
    """
    run = _trace(entry, project, apis, torchrun=True)
    if _other_launcher(run):
        run = _trace(entry, project, apis, torchrun=False)
        run.trace.local_rank_variable = _local_rank_variable(run)
    return run


def _other_launcher(run: Run) -> bool:
    """Whether the program reads a rank that only mpirun, srun ... set, and none of ours, wherever
    it opens a process group."""
    doubted = {event.name for event in run.trace.of("question")}
    read = [
        (event.path.items(), run.apis.environment[event.name])
        for event in run.trace.of("lookup")
        if event.detail["required"] and event.name not in doubted
    ]
    groups: list[Path] = [group.path for group in run.trace.of("group")]
    always = [{word for path, word in read if path <= group.items()} for group in groups or [{}]]
    ranks = {"local_rank", "global_rank"}
    return all(
        bool(words & {f"{rank}?" for rank in ranks}) and not words & ranks for words in always
    )


def _local_rank_variable(run: Run) -> str:
    """The launcher's variable for the local rank, judged by those that the program reads."""
    known = run.apis.environment
    read = [event.name for event in run.trace.of("lookup") if event.detail["required"]]
    ours = [name for name, word in known.items() if word == "local_rank?"]
    for name in read:
        family = [other for other in ours if other.partition("_")[0] == name.partition("_")[0]]
        if family:
            return name if name in family else family[0]
    return run.trace.local_rank_variable


def _trace(entry: Module, project: Project, apis: Apis, *, torchrun: bool) -> Run:
    tree = entry.tree()
    project.forget_runs()
    run = Run(project, apis, entry, torchrun=torchrun)
    run.imported[entry] = Const(True)
    entry.state = "done"
    run.frames.append(Frame(entry, entry.scope))
    try:
        execute(run, tree)
        _run_commands(run)
        _run_unused_forwards(run)
    except Dead:
        pass
    return run


def _run_commands(run: Run) -> None:
    """The functions that an installed project starts without the script's main guard."""
    entry = run.trace.entry
    functions = [
        function
        for name in run.project.commands_of(entry)
        if isinstance(function := entry.variables.get(name), Function)
        and id(function.body) not in run.costs
    ]
    run_one_of(run, functions, Place(entry, entry.tree()))


def _run_unused_forwards(run: Run) -> None:
    """Wrapped modules whose forward nobody was seen to call are called once, with any input."""
    for event in list(run.trace.of("wrap", "shard")):
        module = event.detail["module"]
        if isinstance(module, Object) and id(module) not in run.ran_forward:
            before = run.path, run.process, run.cell
            run.path, run.process = event.path, event.process
            run.cell = {**run.cell, **vars(event.state)}
            with suppress(Dead):
                call(run, module, Arguments(open=True), event.place)
            run.path, run.process, run.cell = before


def finish(drafts: Iterable[Draft]) -> list[Finding]:
    """Findings in the order of their places, each once; a constant is one cause, however it is
    used."""
    unique: dict[tuple[str | None, Place], Draft] = {}
    for draft in drafts:
        code = None if _is_literal(draft.place) else draft.code
        unique.setdefault((code, draft.place), draft)
    wanted: dict[Module, list[Place]] = {}
    for draft in unique.values():
        for place in _places(draft):
            wanted.setdefault(place.module, []).append(place)
    texts = {module: source_text(module.data(), module.tree()) for module in wanted}
    found = {
        module: positions(module.tree(), [place.node for place in places], texts[module])
        for module, places in wanted.items()
    }

    def find(place: Place) -> Range:
        return found[place.module][id(place.node)]

    repairs = {id(draft.fix): draft.fix for draft in unique.values() if draft.fix is not None}
    fixes = {key: repair.edits(find) for key, repair in repairs.items()}  # many findings share one
    findings: list[Finding] = []
    for module, text in texts.items():
        own = [
            _finding(draft, find, fixes.get(id(draft.fix)))
            for draft in unique.values()
            if draft.place.module is module
        ]
        findings += unsuppressed(own, module.tree(), text)
    findings.sort(key=lambda finding: (finding.filename, finding.location, finding.code))
    return findings


def _is_literal(place: Place) -> bool:
    return isinstance(place.node, (cst.BaseNumber, cst.BaseString))


def _places(draft: Draft) -> Iterable[Place]:
    yield _shown(draft.place)
    for place, _ in draft.related:
        yield _shown(place)
    if draft.fix is not None:
        yield from draft.fix.nodes()


def _shown(place: Place) -> Place:
    """The part of a node to point at: of a long chain of calls, the name of the last one."""
    import libcst as cst

    node = place.node
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return Place(place.module, node.func.attr)
    return place


def _finding(draft: Draft, find: Callable[[Place], Range], fix: Fix | None) -> Finding:
    start, end = find(_shown(draft.place))
    return Finding(
        draft.code,
        draft.message,
        draft.severity,
        filename=str(draft.place.module.path),
        location=start,
        end_location=end,
        behaviour=draft.behaviour,
        symptom=draft.symptom,
        repair=draft.repair,
        related=tuple(
            Related(str(place.module.path), find(_shown(place))[0], text)
            for place, text in draft.related
        ),
        fix=fix,
    )
