"""Calls that run other functions of the program, and what calls give back."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ddpdoctor.lint.attributes import class_attribute
from ddpdoctor.lint.calls import call as call_value
from ddpdoctor.lint.commands import add_command, new_group, run_component
from ddpdoctor.lint.expressions import evaluate
from ddpdoctor.lint.frameworks import open_group_and_bind
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.library_values import RANKS, named_value, shared_object
from ddpdoctor.lint.options import (
    call_with_options,
    click_option,
    flag_option,
    gives_first_argument,
    parse_into_dataclasses,
)
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.processes import run_executor, run_job, run_process, run_spawn, run_thread
from ddpdoctor.lint.values import (
    Arguments,
    Class,
    Const,
    Function,
    Name,
    Native,
    Object,
    Place,
    Sequence,
    Unknown,
    Value,
)


def passes(call: Call) -> Value:
    if call.api.facts.get("launched_with_local_rank"):
        call.record("launcher")
    given = call.arguments.get(0)
    return Unknown() if given is None else given


def calls(call: Call) -> Value:
    target = call.argument("target")
    if target is None:
        return Unknown()
    given = call.argument("arguments")
    if isinstance(given, Sequence):
        return call_value(call.run, target, Arguments(given.items), call.place)
    rest = Arguments(call.arguments.positional[1:], {}, call.arguments.open)
    return call_value(call.run, target, rest, call.place)


def applies(call: Call) -> Value:
    """Function.apply(x) runs forward(ctx, x), or forward(x) of a class with a setup_context."""
    cls = call.receiver
    forward = class_attribute(cls, "forward") if isinstance(cls, Class) else None
    if not isinstance(cls, Class) or forward is None:
        return Unknown()
    with_context = class_attribute(cls, "setup_context") is None
    given = call.arguments
    if with_context:
        given = Arguments((Unknown(), *given.positional), given.named, given.open)
    return call_value(call.run, forward, given, call.place)


def nothing(call: Call) -> Value:
    return Unknown()


def returns(call: Call) -> Value:
    word = call.api.facts.get("value", "unknown")
    if call.api.facts.get("query"):
        call.record("query")
    if word in RANKS:
        call.record("asks", answer=word)
    group = call.argument("group")
    if group is not None and not (isinstance(group, Const) and group.value is None):
        return Unknown()  # the rank in a group of its own, such as the ranks of one machine
    if word == "global_rank":
        return call.run.cell["rank"]
    return call.run.cell["group"] if word == "backend" else named_value(call.run, word)


def spawn(call: Call) -> Value:
    count, nodes = call.argument("count"), call.argument("nodes")
    if nodes is not None and not (isinstance(nodes, Const) and nodes.value == 1):
        count = None
    arguments = call.argument("arguments")
    if call.api.facts.get("rest"):
        arguments = Sequence(call.arguments.positional[1:], "tuple", open=call.arguments.open)
    return run_spawn(
        call.run,
        _prepared(call),
        arguments,
        count,
        call.place,
        passes_index=bool(call.api.facts.get("index", True)),
    )


def submits(call: Call) -> Value:
    """executor.submit(function, *arguments): a job whose tasks are the ranks."""
    target = call.argument("target")
    if target is not None:
        settings = call.receiver.attributes if isinstance(call.receiver, Object) else {}
        tasks = Arguments(named={k: v for k, v in settings.items() if isinstance(k, str)})
        count = resolve(call.api.argument("tasks", tasks) or Const(1), call.run.path)
        gpus = resolve(call.api.argument("gpus", tasks) or Unknown(), call.run.path)
        if isinstance(gpus, Const) and gpus.value == 1:
            count = gpus  # of the GPUs of its machine it has one to itself
        given = call.arguments
        rest = Arguments(given.positional[1:], given.named, given.open)
        run_job(call.run, target, rest, count, call.place)
    return Unknown()


def updates(call: Call) -> Value:
    if isinstance(call.receiver, Object):
        for name, value in call.arguments.named.items():
            call.run.heap.write(call.receiver.attributes, name, value)
    return Const(None)


def launcher(call: Call) -> Value:
    """elastic_launch(config, main)(*arguments): the ranks start where the result is called."""
    target = call.argument("target")

    def launch(arguments: Arguments, place: Place) -> Value:
        given = Sequence(arguments.positional, "tuple", open=arguments.open)
        return run_spawn(call.run, target, given, None, place, passes_index=False)

    return Native(launch)


def _prepared(call: Call) -> Value | None:
    """The function that each new process runs, after what the launcher does there itself."""
    target = call.argument("target")
    if target is None or not call.api.facts.get("groups"):
        return target

    def start(arguments: Arguments, place: Place) -> Value:
        open_group_and_bind(call)
        return call_value(call.run, target, arguments, place)

    return Native(start)


def process(call: Call) -> Value:
    return run_process(
        call.run,
        call.argument("target"),
        call.argument("arguments"),
        call.argument("keywords"),
        call.place,
    )


def thread(call: Call) -> Value:
    return run_thread(
        call.run,
        call.argument("target"),
        call.argument("arguments"),
        call.argument("keywords"),
        call.place,
    )


def executor(call: Call) -> Value:
    return run_executor(
        call.run, call.argument("initializer"), call.argument("initargs"), call.place
    )


def multiprocessing(call: Call) -> Value:
    """get_context("spawn"): what offers the same as the package that it is called of."""
    return Name(call.name.rpartition(".")[0])


def option(call: Call) -> Value:
    """@click.option("--gpu", default=0): the parameter of that name gets the option's value."""
    return click_option(call.run, call.arguments, call.place)


def flag(call: Call) -> Value:
    """absl's flags: an option that becomes an attribute of the object named by `into`."""
    flags = shared_object(str(call.api.facts["into"]))
    return flag_option(call.run, flags, call.arguments, call.place)


def annotated(call: Call) -> Value:
    """@pyrallis.wrap(): the command line fills the class that annotates the first parameter."""

    def record(parameter: cst.Param) -> Value:
        annotation = parameter.annotation
        cls = Unknown() if annotation is None else evaluate(call.run, annotation.annotation)
        return call_with_options(call.run, resolve(cls, call.run.path), call.place)

    return gives_first_argument(call.run, record)


def command(call: Call) -> Value:
    """fire.Fire(main): runs it, its parameters being options; of a dataclass, makes one."""
    return run_component(call.run, call.argument("target"), call.place)


def command_group(call: Call) -> Value:
    """typer.Typer(), @click.group()."""
    name = str(call.api.facts.get("makes", call.name))
    if name == call.name:
        return new_group(name, call.place)
    return _on_function(call, lambda function: new_group(name, call.place, function))


def subcommand(call: Call) -> Value:
    """@cli.command(), cli.add_command(train), @cli.group()."""
    name = call.api.facts.get("makes")

    def add(command: Value) -> Value:
        if isinstance(name, str):
            command = new_group(name, call.place, command)
        return add_command(call.run, call.receiver, command)

    return _on_function(call, add)


def _on_function(call: Call, decorate: Callable[[Value], Value]) -> Value:
    """A decorator with or without options in between."""
    given = call.arguments.get(0)
    if isinstance(given, (Function, Object)):
        return decorate(given)
    return Native(lambda arguments, place: decorate(arguments.get(0) or Unknown()))


def records(call: Call) -> Value:
    """HfArgumentParser((A, B)).parse_args_into_dataclasses(): one instance of each class."""
    return parse_into_dataclasses(call.run, call.receiver, call.place)


def kernel(call: Call) -> Value:
    """triton.jit(...) called with options is a decorator still."""
    return Object(Name(call.name), {}, call.place)


def keeps(call: Call) -> Value:
    """A library object that keeps its first argument for a later call."""
    return Object(Name(call.name), {"#kept": call.arguments.get(0) or Unknown()}, call.place)
