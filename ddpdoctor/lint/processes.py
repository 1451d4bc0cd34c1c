"""Processes and threads that a program starts, each run as one rank of the job sees it."""

from __future__ import annotations

from contextlib import suppress

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.branches import Dead
from ddpdoctor.lint.calls import call
from ddpdoctor.lint.iteration import items_of
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.trace import Process
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Dict,
    Index,
    Method,
    Name,
    Object,
    Place,
    Role,
    Sequence,
    Unknown,
    Value,
    is_loop_number,
)

PROCESSES = ("multiprocessing.Process", "torch.multiprocessing.Process")
THREAD = "threading.Thread"
EXECUTOR = "concurrent.futures.ThreadPoolExecutor"


def run_spawn(
    run: Run,
    target: Value | None,
    arguments: Value | None,
    count: Value | None,
    place: Place,
    *,
    passes_index: bool = True,
) -> Value:
    """mp.spawn(target, args, nprocs): target(i, *args) in every new process."""
    given = _given(run, arguments)
    if target is None:
        return Unknown()
    several = not _is_one(count)
    run.record("spawn", "spawn", place, arguments=Arguments(given.positional))
    if passes_index:
        index: Value = Index(Role.LOCAL, place) if several else Const(0)
        given = Arguments((index, *given.positional), {}, given.open)
    mask = run.cell["visible"] if several else None
    _run_process(run, target, given, place, alone=not several, mask=mask)
    return Unknown()


def run_job(run: Run, target: Value, arguments: Arguments, count: Value, place: Place) -> None:
    """A job of count ranks a machine that another program starts; what this one does before it is
    of no matter to them."""
    _run_process(run, target, arguments, place, alone=_is_one(count))


def run_process(
    run: Run,
    target: Value | None,
    arguments: Value | None,
    keywords: Value | None,
    place: Place,
) -> Value:
    """multiprocessing.Process(target, args): one of several when a loop numbers them."""
    if target is None:
        return Object(Name("multiprocessing.Process"), {}, place)
    given = numbered(_given(run, arguments, keywords))
    run.record("spawn", "Process", place, arguments=given)
    _run_process(run, target, given, place, alone=False)
    return Object(Name("multiprocessing.Process"), {}, place)


def numbered(arguments: Arguments) -> Arguments:
    """The arguments of a process that a loop starts."""
    named = {name: _numbered(value) for name, value in arguments.named.items()}
    return Arguments(tuple(map(_numbered, arguments.positional)), named, arguments.open)


def _is_one(count: Value | None) -> bool:
    return isinstance(count, Const) and count.value == 1


def start(run: Run, started: Object, owner: str, place: Place) -> Value:
    """start() of an instance of a class that derives from Process or Thread: runs its run()."""
    body = class_attribute(started.cls, "run") if isinstance(started.cls, Class) else None
    if body is None:
        return Const(None)
    target = Method(started, resolve(body, run.path))
    if owner == THREAD:
        return in_thread(run, target, Arguments(), place)
    run.record("spawn", "Process", place)
    _run_process(run, target, Arguments(), place, alone=False)
    return Const(None)


def _numbered(value: Value) -> Value:
    """The number that a loop over range() gives each process is its local rank.

    Such a number has no place in the source, unlike one that was written down.
    """
    if isinstance(value, Const) and type(value.value) is int and value.origin is None:
        return Index(Role.LOCAL)
    return Index(Role.LOCAL) if is_loop_number(value) else value


def _run_process(
    run: Run,
    target: Value,
    arguments: Arguments,
    place: Place,
    *,
    alone: bool,
    mask: Value | None = None,
) -> None:
    parent = run.process
    process = Process("spawned", parent, mask=mask, target=target, arguments=arguments)
    run.trace.processes.append(process)
    before = len(run.trace.events)
    with run.inside(process), suppress(Dead):
        call(run, target, arguments, place)
    started = run.trace.events[before:]
    if any(event.kind == "group" and event.process.owner() is process for event in started):
        if alone:
            process.launches.append({})  # a job of one process: nobody shares its GPU
        parent.launches.append(run.path)


def run_thread(
    run: Run,
    target: Value | None,
    arguments: Value | None,
    keywords: Value | None,
    place: Place,
) -> Value:
    """threading.Thread(target): a thread starts with no current device of its own."""
    if target is not None:
        in_thread(run, target, _given(run, arguments, keywords), place)
    return Object(Name(THREAD), {}, place)


def in_thread(
    run: Run,
    target: Value,
    arguments: Arguments,
    place: Place,
    *,
    initializer: tuple[Value, Arguments] | None = None,
) -> Value:
    result: Value = Unknown()
    with run.inside(Process("thread", run.process, depth=len(run.frames))):
        try:
            if initializer is not None:
                call(run, initializer[0], initializer[1], place)
            result = call(run, target, arguments, place)
        except Dead:
            pass
    return result


def run_executor(
    run: Run, initializer: Value | None, initargs: Value | None, place: Place
) -> Value:
    attributes: dict[object, Value] = {}
    if initializer is not None:
        attributes["#initializer"] = initializer
        attributes["#initargs"] = initargs or Sequence((), "tuple")
    return Object(Name(EXECUTOR), attributes, place)


def submit(run: Run, executor: Object, arguments: Arguments, place: Place, *, each: bool) -> Value:
    """executor.submit(f, x), or executor.map(f, xs) with each."""
    if not arguments.positional:
        return Unknown()
    target, rest = arguments.positional[0], arguments.positional[1:]
    initializer = None
    if "#initializer" in executor.attributes:
        given = _given(run, executor.attributes["#initargs"])
        initializer = (executor.attributes["#initializer"], given)
    if not each:
        passed = Arguments(rest, arguments.named, arguments.open)
        result = in_thread(run, target, passed, place, initializer=initializer)
        return Object(Name("concurrent.futures.Future"), {"#result": result}, place)
    columns = tuple(items_of(run, column)[0][0] if column else Unknown() for column in rest)
    result = in_thread(run, target, Arguments(columns), place, initializer=initializer)
    return Sequence((result,), open=True)


def _given(run: Run, arguments: Value | None, keywords: Value | None = None) -> Arguments:
    """The arguments in a tuple and a dictionary."""
    items = Sequence(()) if arguments is None else resolve(arguments, run.path)
    named = None if keywords is None else resolve(keywords, run.path)
    entries = named.entries if isinstance(named, Dict) else {}
    by_name = {name: value for name, value in entries.items() if isinstance(name, str)}
    if isinstance(items, Sequence):
        return Arguments(items.items, by_name, items.open)
    return Arguments((), by_name, open=True)
