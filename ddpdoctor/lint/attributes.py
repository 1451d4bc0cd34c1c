"""Attributes of values: of objects, classes, modules and libraries."""

from __future__ import annotations

import builtins

from ddpdoctor.lint.library_values import RANKS, named_value, of_library
from ddpdoctor.lint.modules import module_attribute
from ddpdoctor.lint.paths import or_else, resolve
from ddpdoctor.lint.run import Run
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
    Sequence,
    Text,
    Unknown,
    Value,
)


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
    from ddpdoctor.lint.tensor_operations import object_attribute

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
                known = of_class_table(run, ancestor.name, name, place)
                if known is not None:
                    return known
    elif isinstance(cls, Name):
        known = of_class_table(run, cls.name, name, place)
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


def of_class_table(run: Run, cls: str, name: str, place: Place) -> Value | None:
    facts = run.apis.classes.get(run.apis.canonical(cls), {})
    word = facts.get("attributes", {}).get(name)
    asks = facts.get("asks")
    if word in RANKS if asks is None else name in asks:
        run.record("asks", name, place, answer=word)
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


def shows_all(value: Value) -> bool:
    """Whether it is a class without attributes from a library or from what is not seen.

    Not so of its instances: a loop of setattr over what a file holds gives them many.
    """
    if not isinstance(value, Class) or value.metaclass is not None:
        return False
    return all(
        not base.open
        if isinstance(base, Class)
        else isinstance(base, Name) and base.name == "builtins.object"
        for base in value.ancestors()
    )


def _of_class(run: Run, cls: Class, name: str, place: Place) -> Value:
    found = class_attribute(cls, name)
    if found is not None:
        found = resolve(found, run.path)
        if isinstance(found, Function) and found.kind == "class":
            return Method(cls, found)
        if isinstance(found, Object) and "#default" in found.attributes:
            return found.attributes["#default"]
        return found
    of_metaclass = None if cls.metaclass is None else class_attribute(cls.metaclass, name)
    if isinstance(of_metaclass, Function) and of_metaclass.kind in ("function", "property"):
        return bind_method(run, cls, of_metaclass, place)
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
    from ddpdoctor.lint.nn_modules import attribute_was_set

    if isinstance(receiver, Object):
        attribute_was_set(run, receiver, name, value, place)
        run.heap.write(receiver.attributes, name, value)
    elif isinstance(receiver, Class):
        run.heap.write(receiver.namespace, name, value)
    elif isinstance(receiver, ModuleValue):
        run.heap.write(receiver.module.variables, name, value)
    elif isinstance(receiver, Unknown):
        run.heap.write(run.of_unknown, (receiver.key, name), value)
