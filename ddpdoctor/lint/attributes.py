"""Attributes of values, and what imports bring in."""

from __future__ import annotations

import builtins

from ddpdoctor.lint.branches import map_value, or_else, resolve
from ddpdoctor.lint.run import MOST_FILES, Frame, Run
from ddpdoctor.lint.sources import Module, Unreadable
from ddpdoctor.lint.values import (
    MISSING,
    NAMED_TUPLE,
    Arguments,
    Attribute,
    Class,
    Const,
    Device,
    Dict,
    Either,
    Function,
    Index,
    Method,
    ModuleValue,
    Name,
    Native,
    Object,
    Place,
    Role,
    Sequence,
    Text,
    Unknown,
    Value,
    either,
)

MOST_IMPORT_DEPTH = 40


def has_builtin(name: str) -> bool:
    return hasattr(builtins, name)


def get_attribute(run: Run, receiver: Value, name: str, place: Place) -> Value:
    """receiver.name; the receiver is no either-or any more."""
    if isinstance(receiver, Name):
        return of_library(run, receiver.name, name)
    if name == "__dict__" and isinstance(receiver, (Object, Class, ModuleValue)):
        return namespace_of(receiver)
    if isinstance(receiver, Object):
        return _of_object(run, receiver, name, place)
    if isinstance(receiver, ModuleValue):
        return module_attribute(run, receiver.module, name)
    if isinstance(receiver, Class):
        return _of_class(run, receiver, name, place)
    if isinstance(receiver, Device):
        if name == "index":
            return receiver.index if receiver.index is not None else Const(None)
        if name == "type":
            return Const(receiver.kind, receiver.origin)
    if isinstance(receiver, (Sequence, Dict, Const, Text, Index)):
        from ddpdoctor.lint.natives import native_method

        found = native_method(run, receiver, name)
        if found is not None:
            return found
    if isinstance(receiver, Unknown) and not name.startswith("__"):
        held = run.of_unknown.get((receiver.key, name), MISSING)
        return or_else(held, run.path, lambda: AttributeOfUnknown(receiver, name))
    return Attribute(receiver, name, place)


def namespace_of(value: Value) -> Dict:
    """vars(value): a dictionary that shares its attributes."""
    if isinstance(value, Object):
        return Dict(value.attributes)
    if isinstance(value, Class):
        return Dict(value.namespace, open=True)
    if isinstance(value, ModuleValue):
        return Dict(value.module.variables, open=True)
    return Dict({}, open=True)


class AttributeOfUnknown(Unknown):
    """An attribute of something unknown: unknown too, but still callable by its name."""

    __slots__ = ("attribute", "receiver")

    def __init__(self, receiver: Unknown, name: str) -> None:
        super().__init__(("attribute", receiver.key, name))
        self.receiver = receiver
        self.attribute = name


def of_library(run: Run, owner: str, name: str) -> Value:
    full = run.apis.canonical(f"{owner}.{name}")
    known = run.apis.values.get(full)
    if known is not None:
        return named_value(run, known)
    return Name(full)


def named_value(run: Run, word: str | list[str]) -> Value:
    """The value that a word of the API tables stands for; a list of them is a tuple."""
    if isinstance(word, list):
        return Sequence(tuple(named_value(run, each) for each in word), "tuple")
    word, optional, _ = word.partition("?")
    value = _named(run, word)
    if optional:
        return either(("set", word), None, value, Unknown())
    return value


def _named(run: Run, word: str) -> Value:
    constants = {"true": True, "false": False, "none": None, "zero": 0}
    if word in constants:
        return Const(constants[word])
    roles = {
        "local_rank": Role.LOCAL,
        "global_rank": Role.GLOBAL,
        "world_size": Role.WORLD,
        "local_world_size": Role.LOCAL_WORLD,
        "device_count": Role.DEVICES,
    }
    if word in roles:
        return Index(roles[word])
    if word.startswith("'"):
        return Const(word.strip("'"))
    if word.startswith("object "):
        return Object(Name(word.partition(" ")[2]))
    if word.startswith("shared "):
        return shared_object(word.partition(" ")[2])
    if word == "physical":
        return Text((Index(Role.PHYSICAL),))
    if word == "cuda":
        return Device("cuda")
    if word == "cpu":
        return Device("cpu")
    if word == "cuda:0":
        return Device("cuda", Const(0))
    if word == "cuda:local":
        return Device("cuda", Index(Role.LOCAL))
    if word == "current_device":
        return current_index(run)
    if word == "cuda:current":
        return map_value(current_index(run), run.path, lambda index: Device("cuda", index))
    return Unknown()


def shared_object(name: str) -> Unknown:
    """The one object of a library that the program sets attributes of from anywhere."""
    return Unknown(("shared", name))


def current_index(run: Run) -> Value:
    """What torch.cuda.current_device() gives: 0 as long as nothing was bound."""
    return map_value(
        run.cell["current"],
        run.path,
        lambda index: Const(0) if isinstance(index, Const) and index.value is None else index,
    )


def _of_object(run: Run, receiver: Object, name: str, place: Place) -> Value:
    held = receiver.attributes.get(name, MISSING)
    of_class = class_attribute(receiver.cls, name) if isinstance(receiver.cls, Class) else None
    if isinstance(held, Either) and of_class is not None:
        held = or_else(held, run.path, lambda: _from_class(run, receiver, name, place))
    held = resolve(held, run.path)
    if held is not MISSING:
        return held
    return _from_class(run, receiver, name, place)


def _from_class(run: Run, receiver: Object, name: str, place: Place) -> Value:
    from ddpdoctor.lint.tensors import object_attribute

    cls = receiver.cls
    if isinstance(cls, Name) and cls.name == "builtins.super":
        return _of_super(run, receiver, name, place)
    if isinstance(cls, Class):
        for ancestor in cls.ancestors():
            if isinstance(ancestor, Class):
                found = ancestor.namespace.get(name)
                if found is not None and found is not MISSING:
                    return bind_method(run, receiver, resolve(found, run.path), place)
            elif isinstance(ancestor, Name):
                known = of_class_table(run, ancestor.name, name)
                if known is not None:
                    return known
    elif isinstance(cls, Name):
        known = of_class_table(run, cls.name, name)
        if known is not None:
            return known
    special = object_attribute(run, receiver, name)
    if special is not None:
        return special
    if name == "state" and "#steps" in receiver.attributes:
        run.record("state", name, place, receiver=receiver)
    if name == "__dict__":
        return Dict(receiver.attributes)
    if isinstance(cls, Class) and not name.startswith("__"):
        return _by_name(run, cls, receiver, name, place)
    return Attribute(receiver, name, place)


def _by_name(run: Run, cls: Class, receiver: Object, name: str, place: Place) -> Value:
    """What is left to a class's __getattr__, and the methods that every NamedTuple has."""
    from ddpdoctor.lint.calls import call

    fallback = class_attribute(cls, "__getattr__")
    if fallback is not None:
        return call(run, Method(receiver, fallback), Arguments((Const(name, place),)), place)
    if name in ("_replace", "_asdict") and NAMED_TUPLE in cls.library_bases():
        held = receiver.attributes
        if name == "_asdict":
            return Native(lambda arguments, where: Dict(dict(held)))
        return Native(lambda arguments, where: Object(cls, {**held, **arguments.named}, where))
    return Attribute(receiver, name, place)


def of_class_table(run: Run, cls: str, name: str) -> Value | None:
    facts = run.apis.classes.get(run.apis.canonical(cls))
    if facts is None:
        return None
    word = facts.get("attributes", {}).get(name)
    return None if word is None else named_value(run, word)


def bind_method(run: Run, receiver: Value, found: Value, place: Place) -> Value:
    if isinstance(found, Function):
        if found.kind == "property":
            from ddpdoctor.lint.calls import call_function

            return call_function(run, found, Arguments((receiver,)), place, receiver=receiver)
        if found.kind == "static":
            return found
        if found.kind == "class" and isinstance(receiver, Object) and receiver.cls is not None:
            return Method(receiver.cls, found)
        return Method(receiver, found)
    return found


def _of_super(run: Run, proxy: Object, name: str, place: Place) -> Value:
    owner, receiver = proxy.attributes["#owner"], proxy.attributes["#receiver"]
    cls = receiver.cls if isinstance(receiver, Object) else receiver
    if isinstance(cls, Class):
        order = list(cls.ancestors())
        position = next((i for i, c in enumerate(order) if c is owner), -1)
        for ancestor in order[position + 1 :]:
            if isinstance(ancestor, Class):
                found = ancestor.namespace.get(name)
                if found is not None:
                    return bind_method(run, receiver, resolve(found, run.path), place)
    return Attribute(receiver, name, place)


def class_attribute(cls: Class, name: str) -> Value | None:
    for ancestor in cls.ancestors():
        if isinstance(ancestor, Class) and name in ancestor.namespace:
            return ancestor.namespace[name]
    return None


def _of_class(run: Run, cls: Class, name: str, place: Place) -> Value:
    found = class_attribute(cls, name)
    if found is not None:
        found = resolve(found, run.path)
        if isinstance(found, Function) and found.kind == "class":
            return Method(cls, found)
        if isinstance(found, Object) and "#default" in found.attributes:
            return found.attributes["#default"]
        return found
    if name == "__name__":
        return Const(cls.name)
    if name == "__subclasses__":
        return Native(lambda arguments, where: subclasses(cls))
    return Attribute(cls, name, place)


def subclasses(cls: Class) -> Sequence:
    """The classes that were derived from it so far."""
    held = cls.namespace.get("#subclasses", MISSING)
    return held if isinstance(held, Sequence) else Sequence((), open=held is not MISSING)


def set_attribute(run: Run, receiver: Value, name: str, value: Value, place: Place) -> None:
    from ddpdoctor.lint.tensors import attribute_was_set

    if isinstance(receiver, Object):
        attribute_was_set(run, receiver, name, value, place)
        run.heap.write(receiver.attributes, name, value)
    elif isinstance(receiver, Class):
        run.heap.write(receiver.namespace, name, value)
    elif isinstance(receiver, ModuleValue):
        run.heap.write(receiver.module.variables, name, value)
    elif isinstance(receiver, Unknown):
        run.heap.write(run.of_unknown, (receiver.key, name), value)


def import_module(run: Run, dotted: str) -> Value:
    """`import a.b`: the project's module, or the library's name."""
    module = run.project.find(dotted, run.frame.module)
    if module is not None:
        head = dotted
        while "." in head:  # importing a.b runs a first
            head = head.rpartition(".")[0]
            package = run.project.find(head, run.frame.module)
            if package is not None:
                load(run, package)
        load(run, module)
        return ModuleValue(module)
    if run.project.is_package(dotted, run.frame.module):
        return Object(None, {"#namespace": Const(dotted)})
    return Name(run.apis.canonical(dotted))


def load(run: Run, module: Module) -> None:
    """Runs a module's body, once; a circular import sees what is there so far."""
    from ddpdoctor.lint.statements import execute

    if module.state != "new":
        return
    run.files += 1
    if len(run.frames) > MOST_IMPORT_DEPTH or run.files > MOST_FILES:
        return
    module.state = "running"
    try:
        tree = module.tree()
    except Unreadable as problem:
        run.problems[module] = str(problem)
        module.state = "done"
        return
    run.frames.append(Frame(module, module.scope))
    try:
        execute(run, tree)
    finally:
        run.frames.pop()
        module.state = "done"


def module_attribute(run: Run, module: Module, name: str) -> Value:
    value = module.variables.get(name)
    if value is not None and value is not MISSING:
        return resolve(value, run.path)
    below = run.project.find(f"{module.name}.{name}", module)
    if below is not None and module.path.name == "__init__.py":
        load(run, below)
        return ModuleValue(below)
    return Unknown(("name", id(module), name))


def import_from(run: Run, package: str, level: int, name: str) -> Value:
    full = absolute(run.frame.module, package, level)
    module = run.project.find(full, run.frame.module) if full else None
    if module is not None:
        import_module(run, full)
        value = module.variables.get(name)
        if value is not None and value is not MISSING:
            return resolve(value, run.path)
    if full and (module is not None or run.project.is_package(full, run.frame.module)):
        below = run.project.find(f"{full}.{name}", run.frame.module)
        if below is not None:
            load(run, below)
            return ModuleValue(below)
    if module is not None or level:
        return Unknown(("import", full, name))
    return of_library(run, full, name)


def absolute(importer: Module, package: str, level: int) -> str:
    """The full name behind `from ..package import`."""
    if not level:
        return package
    base = importer.package
    for _ in range(level - 1):
        base = base.rpartition(".")[0]
    return ".".join(part for part in (base, package) if part)


def import_star(run: Run, package: str, level: int) -> None:
    from ddpdoctor.lint.targets import bind

    full = absolute(run.frame.module, package, level)
    module = run.project.find(full, run.frame.module) if full else None
    if module is None:
        return
    import_module(run, full)
    public = module.variables.get("__all__")
    names = None
    if isinstance(public, Sequence) and not public.open:
        names = {item.value for item in public.items if isinstance(item, Const)}
    for name, value in list(module.variables.items()):
        if isinstance(name, str) and (
            name in names if names is not None else not name.startswith("_")
        ):
            bind(run, name, value)
