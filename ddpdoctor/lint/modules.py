"""Modules of the program: what imports bring in. Importing one runs it, once."""

from __future__ import annotations

from ddpdoctor.lint.library_values import of_library
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import MOST_FILES, Frame, Run
from ddpdoctor.lint.sources import Module, Unreadable
from ddpdoctor.lint.values import (
    MISSING,
    Const,
    ModuleValue,
    Name,
    Object,
    Sequence,
    Unknown,
    Value,
)

_MOST_DEPTH = 40


def import_module(run: Run, dotted: str) -> Value:
    """`import a.b`: the project's module, or the library's name."""
    module = run.project.find(dotted, run.frame.module)
    if module is not None:
        head = dotted
        while "." in head:  # importing a.b runs a first
            head = head.rpartition(".")[0]
            package = run.project.find(head, run.frame.module)
            if package is not None:
                _load(run, package)
        _load(run, module)
        return ModuleValue(module)
    if run.project.is_package(dotted, run.frame.module):
        return Object(None, {"#namespace": Const(dotted)})
    return Name(run.apis.canonical(dotted))


def import_from(run: Run, package: str, level: int, name: str) -> Value:
    full = absolute(run.frame.module.package, package, level)
    module = run.project.find(full, run.frame.module) if full else None
    if module is not None:
        import_module(run, full)
        value = module.variables.get(name)
        if value is not None and value is not MISSING:
            return resolve(value, run.path)
    if full and (module is not None or run.project.is_package(full, run.frame.module)):
        below = run.project.find(f"{full}.{name}", run.frame.module)
        if below is not None:
            _load(run, below)
            return ModuleValue(below)
    if module is not None or level:
        return Unknown(("import", full, name))
    return of_library(run, full, name)


def import_star(run: Run, package: str, level: int) -> None:
    from ddpdoctor.lint.targets import bind

    full = absolute(run.frame.module.package, package, level)
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


def module_attribute(run: Run, module: Module, name: str) -> Value:
    value = module.variables.get(name)
    if value is not None and value is not MISSING:
        return resolve(value, run.path)
    below = run.project.find(f"{module.name}.{name}", module)
    if below is not None and module.path.name == "__init__.py":
        _load(run, below)
        return ModuleValue(below)
    return Unknown(("name", id(module), name))


def _load(run: Run, module: Module) -> None:
    """Runs a module's body, once on every path; a circular import sees what is there so far."""
    from ddpdoctor.lint.statements import execute

    if resolve(run.imported.get(module, MISSING), run.path) is not MISSING:
        return
    run.files += module.state == "new"
    if len(run.frames) > _MOST_DEPTH or run.files > MOST_FILES:
        return
    run.heap.write(run.imported, module, Const(True))
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


def absolute(within: str, package: str, level: int) -> str:
    """The full name behind `from ..package import` in a package."""
    if not level:
        return package
    for _ in range(level - 1):
        within = within.rpartition(".")[0]
    return ".".join(part for part in (within, package) if part)
