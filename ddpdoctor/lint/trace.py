"""What a program does that matters for placement, as rank k > 0 does it, in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddpdoctor.lint.gpu_counts import has_one_gpu
from ddpdoctor.lint.paths import Path, compatible, leaves, resolve
from ddpdoctor.lint.values import (
    Arguments,
    Const,
    Device,
    Either,
    Index,
    Object,
    Place,
    Text,
    Unknown,
    Value,
    either,
)

if TYPE_CHECKING:
    from ddpdoctor.lint.reach import View
    from ddpdoctor.lint.sources import Module


@dataclass(eq=False)
class Process:
    """A process, or a thread of one, that the program runs in.

    kind: "script", "spawned" or "thread". launches: the paths on which it starts the ranks and is
    none itself. depth: how many calls its starter was in, whose frames stand before its own. mask:
    what it made of CUDA_VISIBLE_DEVICES for all the ranks that it started at once. target and
    arguments: what it was started to run.
    """

    kind: str
    parent: Process | None = None
    launches: list[Path] = field(default_factory=list)
    forked: bool = False
    depth: int = 0
    mask: Value | None = None
    target: Value | None = None
    arguments: Arguments = field(default_factory=Arguments)

    def launches_on(self, path: Path) -> bool:
        """Whether it may be one that starts the ranks on a path."""
        return any(compatible(launch, path) for launch in self.launches)

    def owner(self) -> Process:
        """The process itself, also for a thread in it."""
        process = self
        while process.kind == "thread" and process.parent is not None:
            process = process.parent
        return process

    def is_like(self, other: Process) -> bool:
        """Whether both were started by one process to run the same."""
        return self.parent is other.parent and self.target is other.target


DEFAULT_BACKEND = "default"
ARGUMENT = "an argument"  # the answer to a program that declares --local_rank, used or not


@dataclass(frozen=True)
class State:
    """The state of a process at an event; each field is a value that may depend on conditions.

    current: the device index the process (or thread) is bound to, None while it is unbound.
    started: whether CUDA has been initialised. group: the backend of the open process group, None
    without one, DEFAULT_BACKEND where none was named. paired: the device index given to
    init_process_group(device_id=). visible: what the program itself made of CUDA_VISIBLE_DEVICES
    before CUDA started, None where untouched.
    """

    current: Value
    started: Value
    group: Value
    paired: Value
    visible: Value


@dataclass(frozen=True, eq=False)
class Event:
    """One thing that happens at one place of the source, on one path.

    kind: what, in the words of rules/apis. name: the call as a person would say it. device: the
    device concerned (a Device, unknown, or None where none is given). stack: the calls that led
    here, innermost last. views: what each frame can name there, for repairs, outermost first.
    detail: what else this kind of event has.
    """

    kind: str
    name: str
    place: Place
    path: Path
    process: Process
    state: State
    device: Value | None
    arguments: Arguments
    stack: tuple[Place, ...]
    views: tuple[View, ...]
    detail: dict[str, Any] = field(default_factory=dict)


class Trace:
    """The events of one program, and the questions that rules ask of them."""

    def __init__(self, entry: Module, ranks_see_one_gpu: Callable[[], bool]) -> None:
        self.entry = entry
        # Files are read for the answer: asked last of all.
        self._ranks_see_one_gpu = ranks_see_one_gpu
        self.events: list[Event] = []
        self._groups: list[Event] = []
        self._asking: list[Event] = []
        self.processes: list[Process] = []  # those that the program starts
        self.local_rank_variable = "LOCAL_RANK"  # as the program's launcher calls it
        self.ranks: dict[Hashable, Index] = {}  # unknown values that a group was given as its rank

    def add(self, event: Event) -> None:
        self.events.append(event)
        if event.kind == "group" and not has_one_gpu(event.path):  # asked for at every event
            self._groups.append(event)
        elif event.kind == "asks":
            self._asking.append(event)

    def of(self, *kinds: str) -> Iterator[Event]:
        return (event for event in self.events if event.kind in kinds)

    def groups(self, event: Event, *, numbered: bool = False) -> list[Event]:
        """The process groups that can be open in the process of an event, on its path.

        Empty where the event does not belong to a rank k > 0 of a CUDA job on its machine: no
        group on this path, a CPU backend, one GPU a machine, or a process that starts the ranks.
        Where a process starts them by some options only, it is one of them by others if it asks for
        its local rank. numbered: or as the event uses a number that tells ranks from each other.
        """
        owner = event.process.owner()
        groups = [
            group
            for group in self._groups
            if group.process.owner() is owner
            and compatible(group.path, event.path)
            and not _is_on_cpu(group, event.path)
            and not (owner.launches and self._launches(owner, group, event, numbered))
        ]
        return [] if groups and has_one_gpu(event.path) else groups

    def is_distributed(self, event: Event, *, surely: bool = True, numbered: bool = False) -> bool:
        """Whether a rank k > 0 of a multi-process job gets to the event.

        surely: leave out programs that are only distributed under a launcher that is not seen, but
        for those that ask for their rank or for how many there are: they are meant to be. numbered:
        as for groups().
        """
        groups = self.groups(event, numbered=numbered)
        return any(group.detail["sure"] for group in groups) or (
            bool(groups) and (not surely or self._asks(event, lambda answer: answer != ARGUMENT))
        )

    def _launches(self, owner: Process, group: Event, event: Event, numbered: bool) -> bool:
        """Whether a process that starts ranks under some conditions is none itself where a group is
        open: it starts them there, too, or it may be the only one of its machine."""
        if owner.launches_on({**group.path, **event.path}):
            return True
        return not numbered and not self._asks(event, lambda what: what in ("local_rank", ARGUMENT))

    def _asks(self, event: Event, wanted: Callable[[str | None], bool]) -> bool:
        """Whether the process asks for something of the launcher on the path of an event."""
        return any(
            wanted(asking.detail["answer"])
            and asking.process.owner() is event.process.owner()
            and compatible(asking.path, event.path)
            for asking in self._asking
        )

    def alternatives(self, event: Event, value: Value | None) -> list[Value]:
        """What a value can be at an event, given that the job is distributed.

        Conditions that the process group depends on are taken as they must be for it to open,
        command-line options at their defaults, and all else both ways.
        """
        if value is None:
            return []
        found: list[Value] = []
        for path in self._paths(event):
            for leaf, _ in leaves(at_defaults(value, path), path):
                if isinstance(leaf, Unknown):
                    leaf = self.ranks.get(leaf.key, leaf)
                if not any(leaf is other for other in found):
                    found.append(leaf)
        return found

    def _paths(self, event: Event) -> list[Path]:
        groups = self.groups(event)
        paths: list[Path] = []
        for group in groups:
            path = {**group.path, **event.path}
            if path not in paths:
                paths.append(path)
        return paths or [event.path]

    def binding(self, event: Event) -> str:
        """ "bound" to the local rank, "constant", "unbound" or "unknown" at an event.

        Where it depends on something unseen, the better answer counts: a false alarm costs more
        than a miss.
        """
        kinds = {_binding(leaf) for leaf in self.alternatives(event, event.state.current)}
        for kind in ("bound", "unknown", "constant"):
            if kind in kinds:
                return kind
        return "unbound"

    def unindexed(self, event: Event) -> bool:
        """Whether an event uses "cuda" without an index where that is GPU 0 on every rank."""
        leaves = self.alternatives(event, event.device)
        return (
            bool(leaves)
            and all(
                isinstance(leaf, Device) and leaf.kind == "cuda" and leaf.index is None
                for leaf in leaves
            )
            and self.is_distributed(event)
            and self.binding(event) == "unbound"
            and not self.is_isolated(event)
            and not self._was_given_one_gpu(event)
        )

    def needs_current_device(self, event: Event) -> bool:
        """Whether a call that picks the current device does so in a process without one."""
        if not self.is_distributed(event) or self.is_isolated(event):
            return False
        if event.kind in ("barrier", "objects", "collective"):
            paired = self.alternatives(event, event.state.paired)
            if not all(_is_none(leaf) for leaf in paired) or self.goes_through_cpu(event):
                return False
        if event.detail.get("only_started") and not self.has_started(event):
            return False
        return self.binding(event) == "unbound" and not self._was_given_one_gpu(event)

    def has_started(self, event: Event) -> bool:
        """Whether CUDA has surely been initialised before an event."""
        started = self.alternatives(event, event.state.started)
        return all(isinstance(s, Const) and bool(s.value) for s in started)

    def goes_through_cpu(self, event: Event) -> bool:
        """Whether a collective may go through a gloo subgroup."""
        leaves = self.alternatives(event, event.detail["group"])
        return any(_may_be_on_cpu(leaf) for leaf in leaves if not _is_none(leaf))

    def indices(self, event: Event, value: Value | None) -> list[Value]:
        """The device indices of a value's alternatives; empty unless all of them have one."""
        found: list[Value] = []
        for leaf in self.alternatives(event, value):
            if not isinstance(leaf, Device) or leaf.kind != "cuda" or leaf.index is None:
                return []
            found.extend(self.alternatives(event, leaf.index))
        return found

    def constant_index(self, event: Event, value: Value | None) -> Value | None:
        """The constant that every alternative of a device has as its index, or None.

        A Const is written in the program; an Unknown is a command-line option with such a default.
        """
        indices = self.indices(event, value)
        if not indices or not all(is_constant(index) for index in indices):
            return None
        if self._is_own(event.process.owner(), indices[0]) or self._was_given_one_gpu(event):
            return None
        return indices[0]

    def _is_own(self, process: Process, index: Value) -> bool:
        """Whether a process was given an index by its starter, which gives the others like it
        another one: Process(target=train, args=(0,)), Process(target=train, args=(1,))."""
        return any(
            given.origin is not None
            and given.origin == index.origin
            and isinstance(given, Const)
            and isinstance(theirs, Const)
            and given.value != theirs.value
            for other in self.processes
            if other.is_like(process)
            for given, theirs in _pairs(process.arguments, other.arguments)
        )

    def asked_in_thread(self, index: Value) -> Event | None:
        """The current_device() of a thread that gave an index, 0 as the thread has no device."""
        asked = (event for event in self.of("current") if event.process.kind == "thread")
        return next((event for event in asked if event.place == index.origin), None)

    def before(self, event: Event) -> Iterator[Event]:
        """What the same process did earlier on a path that leads to the event."""
        for other in self.events:
            if other is event:
                return
            if other.process.owner() is event.process.owner() and compatible(
                other.path, event.path
            ):
                yield other

    def is_isolated(self, event: Event) -> bool:
        """Whether the process sees its own GPU only, so that cuda:0 is right on every rank."""
        if event.state.visible is event.process.owner().mask:
            return False
        return any(
            not (isinstance(leaf, Const) and (leaf.value is None or isinstance(leaf.value, str)))
            for leaf in self.alternatives(event, event.state.visible)
        )

    def _was_given_one_gpu(self, event: Event) -> bool:
        """Whether the rank at an event was started with one GPU to see."""
        return (
            event.process.owner().kind == "script"
            and self.is_distributed(event)
            and self._ranks_see_one_gpu()
        )

    def is_surely_isolated(self, event: Event) -> bool:
        """Whether the program itself leaves each rank the one GPU of its number."""
        return all(map(_names_one_gpu, self.alternatives(event, event.state.visible)))


def _pairs(mine: Arguments, others: Arguments) -> Iterator[tuple[Value, Value]]:
    """What two calls of one function give for the same parameters."""
    yield from zip(mine.positional, others.positional, strict=False)
    for name in mine.named.keys() & others.named.keys():
        yield mine.named[name], others.named[name]


def _names_one_gpu(mask: Value) -> bool:
    """Whether a mask is a rank's number, or the entry of a list at that number."""
    if isinstance(mask, Text):
        return len(mask.parts) == 1 and isinstance(mask.parts[0], Index)
    return isinstance(mask, Index)


def is_constant(index: Value) -> bool:
    """Whether an index is the same number on every rank."""
    if isinstance(index, Unknown):
        return index.default is not None and is_constant(index.default)
    return isinstance(index, Const) and type(index.value) is int and index.value >= 0


def _is_none(leaf: Value) -> bool:
    return isinstance(leaf, Const) and leaf.value is None


def _is_on_cpu(group: Event, path: Path) -> bool:
    """Whether a group has a CPU backend wherever a path, which it is open on, goes."""
    on_cpu: Value = group.detail["on_cpu"]
    if isinstance(on_cpu, Either):
        return all(_is_true(leaf) for leaf, _ in leaves(on_cpu, {**group.path, **path}))
    return _is_true(on_cpu)


def _is_true(value: Value) -> bool:
    return isinstance(value, Const) and value.value is True


def _may_be_on_cpu(group: Value) -> bool:
    """Whether a process group is gloo's, or not known."""
    if not isinstance(group, Object):
        return True
    flag = group.attributes.get("#on_cpu")
    return isinstance(flag, Const) and bool(flag.value)


def _binding(leaf: Value) -> str:
    if isinstance(leaf, Const):
        return "unbound" if leaf.value is None else "constant"
    if isinstance(leaf, Index):
        return "bound"
    if isinstance(leaf, Unknown) and leaf.default is not None:
        return _binding(leaf.default)
    return "unknown"


def at_defaults(value: Value, path: Path) -> Value:
    """Takes the sides of either-ors that the default command line takes, outermost first."""
    value = resolve(value, path)
    if isinstance(value, Either):
        if value.default is not None:
            return at_defaults(value.yes if value.default else value.no, path)
        return either(
            value.key,
            None,
            at_defaults(value.yes, {**path, value.key: True}),
            at_defaults(value.no, {**path, value.key: False}),
        )
    return value
