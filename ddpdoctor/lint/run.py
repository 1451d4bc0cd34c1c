"""One abstract run of a program: its memory, the process it is in, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ddpdoctor.lint.heap import Heap
from ddpdoctor.lint.reach import may_need_repair, views
from ddpdoctor.lint.trace import Event, Process, State, Trace
from ddpdoctor.lint.values import (
    FALSE,
    Arguments,
    Class,
    Const,
    Dict,
    Function,
    Index,
    Object,
    Place,
    Role,
    Scope,
    Sequence,
    Value,
)

if TYPE_CHECKING:
    import libcst as cst

    from ddpdoctor.lint.apis import Apis
    from ddpdoctor.lint.launch_lines import Line
    from ddpdoctor.lint.paths import Path
    from ddpdoctor.lint.project import Project
    from ddpdoctor.lint.sources import Module

# What a program may cost. Beyond it, calls are no longer entered and their results are unknown;
# `Run.exhausted` says so. Public programs stay far below (the largest of 119 took 60,000 steps).
MOST_STEPS = 400_000
MOST_DEPTH = 60
MOST_ENTRIES = 16  # of one function, once it took
MOST_STEPS_OF_ONE = 2_000  # so that `is_main_process()` is known however often it is asked
MOST_FILES = 400  # public programs reach 11 in the median, 273 at most

UNBOUND = Const(None)


@dataclass
class Cost:
    """What a function took: how often it was entered, and the steps in it and those it calls."""

    entries: int = 0
    steps: int = 0

    def too_high(self) -> bool:
        return self.entries > MOST_ENTRIES and self.steps > MOST_STEPS_OF_ONE


class Frame:
    """A function call (or module body) that is being run.

    cell: "left" says whether, and how, the path has left the body ("return", "break",
    "continue"), "return" is the result. It is a heap cell, so that branches join it.
    """

    __slots__ = ("call", "cell", "function", "module", "owner", "receiver", "scope", "yields")

    def __init__(
        self,
        module: Module,
        scope: Scope,
        *,
        function: Function | None = None,
        call: Place | None = None,
        owner: Class | None = None,
        receiver: Value | None = None,
    ) -> None:
        self.module = module
        self.scope = scope
        self.function = function
        self.call = call
        self.owner = owner
        self.receiver = receiver
        self.cell: dict[str, Any] = {"left": FALSE}
        self.yields: Callable[[Value], Value] | None = None


class Run:
    def __init__(
        self, project: Project, apis: Apis, entry: Module, *, torchrun: bool = True
    ) -> None:
        self.project = project
        # Whether torchrun started the program, or a launcher with variables of its own.
        self.torchrun = torchrun
        self.apis = apis
        self.heap = Heap()
        self.path: Path = {}
        self.trace = Trace(entry, lambda: self.ranks_see_one_gpu)
        self.process = Process("script")
        self.cell: dict[str, Value] = new_process_cell()
        self.frames: list[Frame] = []
        self.environment = Dict({}, open=True)
        self.of_unknown: dict[Any, Value] = {}  # attributes set on values that are not known
        self.search_path = Sequence((), open=True)
        self.imported: dict[Any, Value] = {}  # what is known of each module of the project
        self.problems: dict[Module, str] = {}
        self.steps = 0
        self.costs: dict[int, Cost] = {}  # by the id of a function's body
        self.exhausted = False
        self.loop = 0  # when the innermost loop began that stands for many rounds, by values.now()
        self.counters: dict[
            int, tuple[cst.BaseExpression, ...]
        ] = {}  # of loops, by their body's id
        self.files = 1
        self.classes_in_the_making: list[Class] = []  # by metaclasses of the program
        self.modules_of_job: list[Object] = []  # instances of the program's nn.Module classes
        self.ran_forward: set[int] = set()

    @cached_property
    def launches(self) -> tuple[Line, ...]:
        """The command lines beside the program that start it as several ranks."""
        return self.project.launches(self.trace.entry)

    @cached_property
    def ranks_see_one_gpu(self) -> bool:
        """Whether lines beside the program give each of its ranks one GPU to see."""
        known = self.apis.environment.items()
        local_ranks = [name for name, word in known if word.startswith("local_rank")]
        return self.project.ranks_see_one_gpu(self.trace.entry, local_ranks)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def place(self, node: cst.CSTNode) -> Place:
        return Place(self.frame.module, node)

    def spend(self) -> bool:
        """Counts a step; False once the budget is used up."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.exhausted = True
        return not self.exhausted

    def state(self) -> State:
        cell = self.cell
        return State(
            current=cell["current"],
            started=cell["started"],
            group=cell["group"],
            paired=cell["paired"],
            visible=cell["visible"],
        )

    def record(
        self,
        kind: str,
        name: str,
        place: Place,
        *,
        device: Value | None = None,
        arguments: Arguments | None = None,
        path: Path | None = None,
        **detail: Any,
    ) -> Event:
        event = Event(
            kind,
            name,
            place,
            self.path if path is None else path,
            self.process,
            self.state(),
            device,
            arguments or Arguments(),
            tuple(frame.call for frame in self.frames if frame.call is not None),
            views(self) if may_need_repair(self, kind, device) else (),
            detail,
        )
        self.trace.add(event)
        return event

    def set_process(self, key: str, value: Value) -> None:
        self.heap.write(self.cell, key, value)

    @contextmanager
    def inside(self, process: Process) -> Iterator[None]:
        """Runs the body as another process or thread; what it writes is taken back after it.

        A thread shares memory and CUDA with its process but starts with no current device set; a
        process starts with nothing, and what it runs costs it nothing that its parent ran before.
        """
        mark = self.heap.mark()
        outer, cell, path, costs = self.process, self.cell, self.path, self.costs
        self.process = process
        fresh = new_process_cell()
        if process.kind == "thread":
            self.cell = {**cell, "current": UNBOUND}
        else:
            self.cell = {**fresh, "visible": cell["visible"]}
            self.costs = {}
        try:
            yield
        finally:
            self.process, self.cell, self.path = outer, cell, path
            self.costs = {**self.costs, **costs}
            self.heap.take_back(mark)

    def in_method_of_module(self) -> Frame | None:
        """The innermost method of a module that is being run, if any, but for those that a module's
        __init__ runs."""
        innermost = None
        for frame in reversed(self.frames):
            if frame.function is None or not isinstance(frame.receiver, Object):
                continue
            kind = frame.receiver.attributes.get("#kind")
            if isinstance(kind, Const) and kind.value == "module":
                if frame.function.name == "__init__":
                    return None
                innermost = innermost or frame
        return innermost


def new_process_cell() -> dict[str, Value]:
    return {
        "current": UNBOUND,
        "started": Const(False),
        "group": Const(None),
        "rank": Index(Role.GLOBAL),  # in the group
        "paired": Const(None),
        "visible": Const(None),
        "default_device": Const(None),
    }
