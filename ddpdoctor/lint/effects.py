"""What library calls do, in the words of the tables in rules/apis: events and results."""

from __future__ import annotations

from collections.abc import Callable

from ddpdoctor.lint import checkpoints, environment, hydra, tensor_operations
from ddpdoctor.lint.apis import Api
from ddpdoctor.lint.builtin_functions import call_builtin
from ddpdoctor.lint.calls import call, call_new
from ddpdoctor.lint.devices import as_device
from ddpdoctor.lint.frameworks import gives_back, rank_zero, run_command_line, run_framework
from ddpdoctor.lint.kinds import placing, process, running, wrapping
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.machines import place_in_list
from ddpdoctor.lint.natives import SPELLINGS, SPLITTINGS, pieces_of, spelled
from ddpdoctor.lint.nn_modules import added_to_list, library_module
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.stdlib import call_standard, standard_method
from ddpdoctor.lint.tensors import device_of, kind_of, new_tensor
from ddpdoctor.lint.values import (
    Arguments,
    Attribute,
    Class,
    Const,
    Function,
    Name,
    Object,
    Partial,
    Place,
    Unknown,
    Value,
)


def call_library(run: Run, name: str, arguments: Arguments, place: Place) -> Value:
    """Calls something of a library by its full name."""
    name = run.apis.canonical(name)
    if name.endswith(".__new__"):
        return call_new(run, arguments, place)
    if name.startswith("builtins.") and name != "builtins.open":
        return call_builtin(run, name[len("builtins.") :], arguments, place)
    if name.startswith("os.environ.") or name == "os.getenv":
        return environment.call_method(run, name.rpartition(".")[2], arguments, place)
    result = call_standard(run, name, arguments, place)
    if result is not None:
        return result
    api = run.apis.call(name)
    if api is not None:
        return _KINDS[api.does](Call(run, api, name, arguments, place))
    owner, _, last = name.rpartition(".")
    method = run.apis.methods.get(last)
    if method is not None and arguments.positional and owner.rpartition(".")[2][:1].isupper():
        rest = arguments.after_first()
        return call_method(run, arguments.positional[0], last, rest, place)  # Tensor.cuda(x)
    if (last[:1].isupper() or run.apis.builds(name)) and run.apis.kind(name) == "module":
        device = arguments.named.get("device")
        if device is not None:
            placing.note_creation(run, name, as_device(device, run.path), device, arguments, place)
        return library_module(run, name, arguments, place)
    if name.startswith("torch.optim.") and last[:1].isupper():
        return _optimizer(run, name, arguments, place)
    escape(run, name, arguments, place)
    if name.startswith("torch."):
        result = tensor_operations.call_function(run, name, arguments, place)
        if not last[:1].isupper():
            return result
    return Object(Name(name), {}, place) if last[:1].isupper() else Unknown()


def _optimizer(run: Run, name: str, arguments: Arguments, place: Place) -> Object:
    """An optimizer, which keeps its state where the parameters of its module are."""
    optimizer = Object(Name(name), {}, place)
    parameters = resolve(arguments.get(0, "params") or Unknown(), run.path)
    if name == "torch.optim.SGD" and _has_no_momentum(run, arguments):
        return optimizer
    if isinstance(parameters, Object) and "#of" in parameters.attributes:
        optimizer.attributes["#steps"] = parameters.attributes["#of"]
    return optimizer


def _has_no_momentum(run: Run, arguments: Arguments) -> bool:
    """Whether torch.optim.SGD keeps nothing between its steps."""
    momentum = resolve(arguments.get(2, "momentum") or Const(0), run.path)
    return isinstance(momentum, Const) and not momentum.value and not arguments.open


def call_method(run: Run, receiver: Value, name: str, arguments: Arguments, place: Place) -> Value:
    """Calls a method that the program does not define."""
    receiver = resolve(receiver, run.path)
    if name == "__new__" and isinstance(receiver, Class):
        return call_new(run, arguments, place)
    for owner in _library_classes(receiver):
        full = run.apis.canonical(f"{owner}.{name}")
        result = standard_method(run, receiver, owner, name, arguments, place)
        if result is not None:
            return result
        api = run.apis.calls.get(full)
        if api is None and name == "__init__":  # super().__init__(...) in a class of the program
            api = run.apis.calls.get(run.apis.canonical(owner))
            if api is not None and api.does != "consumes":
                continue
        if api is not None:
            return _KINDS[api.does](Call(run, api, full, arguments, place, receiver))
    api = run.apis.methods.get(name)
    if api is not None:
        return _KINDS[api.does](Call(run, api, name, arguments, place, receiver))
    if name == "update":
        checkpoints.keep(run, receiver, arguments.get(0))
    elif name == "copy_":
        checkpoints.use(run, arguments.get(0), place)
    if kind_of(receiver) == "module" and isinstance(receiver, Object):
        return _module_method(run, receiver, name, arguments, place)
    if kind_of(receiver) == "tensor" and isinstance(receiver, Object):
        return tensor_operations.call_method(run, receiver, name, arguments, place)
    if isinstance(receiver, Object) and "#load" in receiver.attributes:
        return checkpoints.part(receiver, name)
    if name == "index":
        return place_in_list(run, arguments.get(0))
    if isinstance(receiver, Unknown) and name in SPELLINGS:
        return spelled(receiver, name)
    if isinstance(receiver, Unknown) and name in SPLITTINGS:
        return pieces_of(run, receiver, name, arguments, place)
    escape(run, name if name.startswith(_MAY_BIND) else "", arguments, place)
    return Unknown()


def known_api(run: Run, callee: Value) -> Api | None:
    """What the tables know of something that could be called."""
    if isinstance(callee, Name):
        return run.apis.call(run.apis.canonical(callee.name))
    if isinstance(callee, Attribute):
        for owner in _library_classes(resolve(callee.receiver, run.path)):
            api = run.apis.calls.get(run.apis.canonical(f"{owner}.{callee.name}"))
            if api is not None:
                return api
    return None


def _library_classes(receiver: Value) -> list[str]:
    if isinstance(receiver, Object):
        if isinstance(receiver.cls, Name):
            return [receiver.cls.name]
        if isinstance(receiver.cls, Class):
            return receiver.cls.library_bases()
    if isinstance(receiver, Class):
        return receiver.library_bases()
    return []


_MEMBERS = ("parameters", "named_parameters", "buffers", "children", "modules", "state_dict")
_SAME = ("train", "eval", "requires_grad_", "half", "float", "double", "bfloat16", "apply")


def _module_method(
    run: Run, module: Object, name: str, arguments: Arguments, place: Place
) -> Value:
    if name in _SAME or name == "__init__":
        return module
    if name in _MEMBERS:
        member = new_tensor(run, device_of(run, module), place, state=Const("parameter"))
        return Object(Name("torch." + name), {"#members": member, "#of": module}, place)
    if name in ("append", "extend", "insert"):
        added_to_list(run, module, name, arguments)
        return module
    return Unknown()


# Methods that bind whatever they belong to: getattr(torch, kind).set_device(index), for one.
_MAY_BIND = ("set_device", "init_dist", "setup_dist", "init_process")


def escape(run: Run, name: str, arguments: Arguments, place: Place) -> None:
    """A call that cannot be followed. name: of the function, "" for a method of something unknown.

    It may bind the process if its name says that it sets up, and it may move modules.
    """
    if name.startswith(tuple(f"{library}." for library in run.apis.libraries)):
        return
    lowered = name.lower()
    if any(word in lowered for word in run.apis.may_bind):
        current = resolve(run.cell["current"], run.path)
        if isinstance(current, Const) and current.value is None:
            run.set_process("current", Unknown())
    for value in (*arguments.positional, *arguments.named.values()):
        value = resolve(value, run.path)
        if kind_of(value) == "module" and isinstance(value, Object):
            run.heap.write(value.attributes, "#device", Unknown())
    function = arguments.get(0)
    if isinstance(function, (Function, Partial)) and len(run.frames) == 1:
        call(run, function, Arguments(open=True), place)  # fire.Fire(main), app.run(main) ...


_KINDS: dict[str, Callable[[Call], Value]] = {
    "bind": process.bind,
    "block": process.block,
    "group": process.group,
    "initialized": process.initialized,
    "framework": run_framework,
    "runs": run_framework,
    "command_line": run_command_line,
    "rank_zero": rank_zero,
    "mesh": process.mesh,
    "subgroup": process.subgroup,
    "place": placing.place,
    "create": placing.create,
    "encodes": placing.encodes,
    "like": placing.like,
    "as_type": placing.as_type,
    "load": placing.load,
    "load_state": placing.load_state,
    "register": placing.register,
    "parameter": placing.parameter,
    "pin": placing.pin,
    "context": placing.context,
    "starts": placing.starts,
    "current": placing.current,
    "default_device": placing.set_default_device,
    "device": placing.device,
    "consumes": placing.consumes,
    "takes_device": placing.takes_device,
    "device_map": placing.device_map,
    "wrap": wrapping.wrap,
    "shard": wrapping.shard,
    "parallel": wrapping.parallel,
    "collective": wrapping.collective,
    "objects": wrapping.objects,
    "barrier": wrapping.barrier,
    "passes": running.passes,
    "gives_back": gives_back,
    "calls": running.calls,
    "applies": running.applies,
    "returns": running.returns,
    "nothing": running.nothing,
    "spawn": running.spawn,
    "submits": running.submits,
    "updates": running.updates,
    "launcher": running.launcher,
    "process": running.process,
    "thread": running.thread,
    "executor": running.executor,
    "multiprocessing": running.multiprocessing,
    "loader": running.keeps,
    "option": running.option,
    "flag": running.flag,
    "annotated": running.annotated,
    "command": running.command,
    "command_group": running.command_group,
    "subcommand": running.subcommand,
    "records": running.records,
    "keeps": running.keeps,
    "kernel": running.kernel,
    "hydra_main": hydra.main,
    "hydra_store": hydra.store,
    "hydra_instantiate": hydra.instantiate,
}
KINDS = frozenset(_KINDS)
