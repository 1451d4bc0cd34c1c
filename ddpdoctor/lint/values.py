"""What a value of the program can be, as far as placement needs to know it.

The lattice is small: a constant, an index with a role (local rank, global rank ...), a text with
such an index in it, a device, an object with attributes, a function, a name of a library, an
either-or that remembers its condition, and unknown. Values are immutable but for the dictionaries
they hold, and those are only written through `Heap.write`.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

    from ddpdoctor.lint.sources import Module

_fresh = itertools.count()


def now() -> int:
    """A moment of the run: values with a uid that are made later have a greater one."""
    return next(_fresh)


@dataclass(frozen=True, eq=False)
class Place:
    """A node of a source file; its row and column are computed when a finding needs them."""

    module: Module
    node: cst.CSTNode

    def __repr__(self) -> str:
        return f"Place({self.module!r}, {type(self.node).__name__})"

    def __hash__(self) -> int:
        return hash((id(self.module), id(self.node)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.node is self.node and other.module is self.module


class Value:
    """Anything an expression can be. origin: where a written-down value stands in the source."""

    __slots__ = ("origin",)

    def __init__(self, origin: Place | None = None) -> None:
        self.origin = origin


class Const(Value):
    """A constant: None, a bool, number, string or bytes, an ellipsis."""

    __slots__ = ("value",)

    def __init__(self, value: Any, origin: Place | None = None) -> None:
        self.value = value
        self.origin = origin

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


FALSE = Const(False)


class Role(Enum):
    """What an integer stands for on rank k of the job."""

    LOCAL = "local rank"
    GLOBAL = "global rank"
    LOCAL_ARGUMENT = "local rank argument"  # filled by some launchers, never by torchrun
    PHYSICAL = "entry of CUDA_VISIBLE_DEVICES"
    WORLD = "world size"
    LOCAL_WORLD = "processes on this machine"
    DEVICES = "device count"


RANKS = frozenset({Role.LOCAL, Role.GLOBAL, Role.LOCAL_ARGUMENT})
COUNTS = frozenset({Role.WORLD, Role.LOCAL_WORLD, Role.DEVICES})


class Index(Value):
    """An integer that differs between ranks, or counts them.

    exact: it is the number itself, not something computed from it (2 * rank, rank + 1), which
    still differs between ranks but is not zero only for rank zero. argument: the command-line
    option behind a LOCAL_ARGUMENT. counted: it is rank % device_count; guessed: so it is of the
    global rank. choices: the constants that it picks one of.
    """

    __slots__ = ("argument", "choices", "counted", "exact", "guessed", "role")

    def __init__(
        self,
        role: Role,
        origin: Place | None = None,
        *,
        exact: bool = True,
        argument: Unknown | None = None,
        counted: bool = False,
        guessed: bool = False,
        choices: tuple[int, ...] = (),
    ) -> None:
        self.role = role
        self.origin = origin
        self.exact = exact
        self.argument = argument
        self.counted = counted
        self.guessed = guessed
        self.choices = choices

    def at(self, origin: Place) -> Index:
        """The same integer, written elsewhere."""
        elsewhere = copy.copy(self)
        elsewhere.origin = origin
        return elsewhere

    def __repr__(self) -> str:
        return f"Index({self.role.name})"


class Text(Value):
    """A string with values in it that are not constant, such as f"cuda:{local_rank}"."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[str | Value, ...], origin: Place | None = None) -> None:
        self.parts = parts
        self.origin = origin

    def __repr__(self) -> str:
        return f"Text({self.parts!r})"


class Device(Value):
    """A torch.device. kind: "cuda", "cpu" ... index: None is the current device at its use."""

    __slots__ = ("index", "kind")

    def __init__(self, kind: str, index: Value | None = None, origin: Place | None = None) -> None:
        self.kind = kind
        self.index = index
        self.origin = origin

    def __repr__(self) -> str:
        return f"Device({self.kind}, {self.index!r})"


class Unknown(Value):
    """Anything. key: two unknowns with one key are the same value, so conditions on them agree.

    default: what it is when nobody says otherwise (the default of a command-line option); given:
    the name of that option.
    """

    __slots__ = ("default", "given", "key")

    def __init__(
        self,
        key: Hashable = None,
        *,
        default: Value | None = None,
        given: str | None = None,
        origin: Place | None = None,
    ) -> None:
        self.key = ("fresh", next(_fresh)) if key is None else key
        self.default = default
        self.given = given
        self.origin = origin

    def __repr__(self) -> str:
        return f"Unknown({self.key!r})"


class Part(Unknown):
    """What a checkpoint holds under a name: unknown, but for the event that loaded it."""

    __slots__ = ("load",)

    def __init__(self, load: Const) -> None:
        super().__init__(origin=load.origin)
        self.load = load


class TypeOf(Unknown):
    """What x.type() gives: the name of a type that tells whether x is on a GPU, at `device`."""

    __slots__ = ("device",)

    def __init__(self, device: Value) -> None:
        super().__init__()
        self.device = device


def loop_number(end: Role | None = None) -> Unknown:
    """One of the numbers from 0 up to a count of that role, or to one that is not known."""
    return Unknown((_LOOP, next(_fresh) if end is None else end))


def is_loop_number(value: Value) -> bool:
    """Whether it is a number that a loop counts from 0."""
    return isinstance(value, Unknown) and isinstance(value.key, tuple) and value.key[0] == _LOOP


_LOOP = "loop number"


class Not(Value):
    """The negation of a value whose truth is not known."""

    __slots__ = ("operand",)

    def __init__(self, operand: Value) -> None:
        self.operand = operand
        self.origin = None


class Either(Value):
    """One of two values, depending on a condition that could not be decided.

    key: the condition's key; default: its truth under the default command line, if known.
    """

    __slots__ = ("default", "key", "no", "size", "uid", "yes")

    def __init__(self, key: Hashable, default: bool | None, yes: Value, no: Value) -> None:
        self.key = key
        self.default = default
        self.yes = yes
        self.no = no
        self.origin = None
        self.size = alternatives(yes) + alternatives(no)
        self.uid = next(_fresh)

    def __repr__(self) -> str:
        return f"Either({self.yes!r} | {self.no!r})"


class Missing(Value):
    """No value: an unset attribute or key on one side of a branch."""

    __slots__ = ()


MISSING = Missing()


class Name(Value):
    """Something of a library, by its full dotted name, such as torch.cuda.set_device."""

    __slots__ = ("name",)

    def __init__(self, name: str, origin: Place | None = None) -> None:
        self.name = name
        self.origin = origin

    def __repr__(self) -> str:
        return f"Name({self.name})"


class ModuleValue(Value):
    """An imported module of the project."""

    __slots__ = ("module",)

    def __init__(self, module: Module) -> None:
        self.module = module
        self.origin = None


class Object(Value):
    """An instance: of a class of the program, or of a library's (cls is then a Name), or plain.

    attributes: also holds, under names that Python cannot spell, what the engine knows beyond
    them: "#device" where a tensor or module lives, "#state" for buffers and parameters.
    """

    __slots__ = ("attributes", "cls")

    def __init__(
        self,
        cls: Value | None,
        attributes: dict[Any, Value] | None = None,
        origin: Place | None = None,
    ) -> None:
        self.cls = cls
        self.attributes: dict[Any, Value] = {} if attributes is None else attributes
        self.origin = origin

    def __repr__(self) -> str:
        return f"Object({self.cls!r})"


class Dict(Value):
    """A dictionary with constant keys. cell: holds under "open" whether there may be more than is
    known, and under "loaded" a part of a checkpoint that stands for what it holds of one under keys
    that are not known."""

    __slots__ = ("cell", "entries")

    def __init__(
        self, entries: dict[Any, Value], *, open: bool = False, loaded: Value = MISSING
    ) -> None:
        self.entries = entries
        self.cell: dict[Any, Any] = {"open": open, "loaded": loaded}
        self.origin = None

    @property
    def open(self) -> bool:
        return bool(self.cell["open"])

    @property
    def loaded(self) -> Value:
        loaded: Value = self.cell.get("loaded", MISSING)
        return loaded


class Sequence(Value):
    """A list, tuple or set. cell: holds the items under "items", under "open" whether there may be
    more, and under "#any", where a branch decides it, whether there are any. given: the option of
    the command line that it is the default of."""

    __slots__ = ("cell", "given", "kind", "uid")

    def __init__(
        self,
        items: tuple[Value, ...],
        kind: str = "list",
        *,
        open: bool = False,
        given: str | None = None,
        origin: Place | None = None,
    ) -> None:
        self.cell: dict[Any, Any] = {"items": items, "open": open}
        self.kind = kind
        self.given = given
        self.origin = origin
        self.uid = next(_fresh)

    @property
    def items(self) -> tuple[Value, ...]:
        items: tuple[Value, ...] = self.cell["items"]
        return items

    @property
    def open(self) -> bool:
        return bool(self.cell["open"])


class Function(Value):
    """A function or lambda of the program, with the scope it closes over.

    owner: the class whose body defines it, for super(). wrappers: decorators that stay in the way.
    """

    __slots__ = ("body", "defaults", "kind", "module", "name", "owner", "parameters", "scope")

    def __init__(
        self,
        name: str,
        parameters: cst.Parameters,
        body: cst.BaseSuite | cst.BaseExpression,
        module: Module,
        scope: Scope,
        defaults: dict[str, Value],
        *,
        owner: Class | None = None,
        kind: str = "function",
        origin: Place | None = None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.body = body
        self.module = module
        self.scope = scope
        scope.capture()
        self.defaults = defaults
        self.owner = owner
        self.kind = kind  # function, property, static, class, context
        self.origin = origin

    def __repr__(self) -> str:
        return f"Function({self.name})"


class Class(Value):
    """A class of the program. bases: Class, Name or Unknown; namespace: its own attributes; open:
    it was given others, under names that are not known."""

    __slots__ = ("bases", "dataclass", "fields", "metaclass", "module", "name", "namespace", "open")

    def __init__(
        self,
        name: str,
        bases: tuple[Value, ...],
        namespace: dict[Any, Value],
        module: Module,
        origin: Place | None = None,
    ) -> None:
        self.name = name
        self.bases = bases
        self.namespace = namespace
        self.module = module
        self.fields: tuple[str, ...] = ()
        self.dataclass = False
        self.open = False
        self.metaclass: Class | None = None  # one of the program
        self.origin = origin

    def __repr__(self) -> str:
        return f"Class({self.name})"

    def ancestors(self) -> Iterator[Value]:
        """The class itself and all its bases, depth first, each once."""
        seen: set[int] = set()
        stack: list[Value] = [self]
        while stack:
            cls = stack.pop()
            if id(cls) in seen:
                continue
            seen.add(id(cls))
            yield cls
            if isinstance(cls, Class):
                stack.extend(reversed(cls.bases))

    def library_bases(self) -> list[str]:
        return [base.name for base in self.ancestors() if isinstance(base, Name)]


def tuple_items(value: Value) -> tuple[Value, ...] | None:
    """The items of an instance of a NamedTuple class, in order; None for anything else."""
    if not isinstance(value, Object) or not isinstance(value.cls, Class):
        return None
    if NAMED_TUPLE not in value.cls.library_bases():
        return None
    return tuple(value.attributes.get(name, MISSING) for name in value.cls.fields)


NAMED_TUPLE = "typing.NamedTuple"


class Method(Value):
    """A function or library method together with the object it was taken from."""

    __slots__ = ("function", "receiver")

    def __init__(self, receiver: Value, function: Value, origin: Place | None = None) -> None:
        self.receiver = receiver
        self.function = function
        self.origin = origin


class Attribute(Value):
    """An attribute of a value that is not known, kept by name so that x.cuda() is still seen."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Value, name: str, origin: Place | None = None) -> None:
        self.receiver = receiver
        self.name = name
        self.origin = origin

    @property
    def key(self) -> Hashable:
        """As of an unknown: read twice, it is the same value."""
        owner = self.receiver
        if isinstance(owner, (Attribute, Unknown)):
            return ("attribute", owner.key, self.name)
        return ("attribute", owner, self.name)

    def __repr__(self) -> str:
        return f"Attribute({self.receiver!r}.{self.name})"


class Partial(Value):
    """functools.partial: a callable and the arguments that it has already."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Value, arguments: Arguments, origin: Place | None = None) -> None:
        self.function = function
        self.arguments = arguments
        self.origin = origin


class Native(Value):
    """A callable that the engine models itself: a bound method of a list, a methodcaller ..."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[Arguments, Place], Value]) -> None:
        self.call = call
        self.origin = None


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call. open: there was a * or ** that could not be followed; loaded: the
    event that loaded a checkpoint which stands behind a **."""

    positional: tuple[Value, ...] = ()
    named: dict[str, Value] = field(default_factory=dict)
    open: bool = False
    loaded: Const | None = None

    def not_seen(self) -> Unknown:
        """What a parameter may be given by what could not be followed."""
        return Unknown() if self.loaded is None else Part(self.loaded)

    def after_first(self) -> Arguments:
        """All but the first positional one."""
        return replace(self, positional=self.positional[1:])

    def get(self, position: int | None, *names: str) -> Value | None:
        """The argument by any of its names, or by position; None where it is not given."""
        for name in names:
            if name in self.named:
                return self.named[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None


class Scope:
    """The variables of a function call, class body or module, and the scope around it.

    captured: a function that is defined in it may read them after the call.
    """

    __slots__ = ("captured", "declared", "outer", "variables")

    def __init__(self, variables: dict[Any, Value], outer: Scope | None) -> None:
        self.variables = variables
        self.outer = outer
        self.declared: dict[str, Scope] = {}  # global and nonlocal names
        self.captured = False

    def capture(self) -> None:
        scope: Scope | None = self
        while scope is not None and not scope.captured:
            scope.captured = True
            scope = scope.outer


# Past this many alternatives an either-or says no more than unknown does.
MOST_ALTERNATIVES = 12


def alternatives(value: object) -> int:
    return value.size if isinstance(value, Either) else 1


def same(a: Value, b: Value) -> bool:
    """Whether two values are certainly equal, so that a branch need not keep both."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and bool(a.value == b.value)
    if isinstance(a, Index) and isinstance(b, Index):
        return (a.role, a.exact, a.counted, a.guessed, a.choices) == (
            b.role,
            b.exact,
            b.counted,
            b.guessed,
            b.choices,
        )
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return a.key == b.key
    if isinstance(a, Name) and isinstance(b, Name):
        return a.name == b.name
    if isinstance(a, Device) and isinstance(b, Device):
        if a.kind != b.kind or (a.index is None) != (b.index is None):
            return False
        return a.index is None or b.index is None or same(a.index, b.index)
    return False


def either(key: Hashable, default: bool | None, yes: Value, no: Value) -> Value:
    """Joins the two sides of a branch."""
    if same(yes, no):
        return yes
    if alternatives(yes) + alternatives(no) > MOST_ALTERNATIVES:
        return Unknown()
    return Either(key, default, yes, no)
