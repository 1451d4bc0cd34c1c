"""What calls do with modules of several processes, and what is sent between them."""

from __future__ import annotations

from ddpdoctor.lint.devices import as_device, is_cpu
from ddpdoctor.lint.kinds.call import Call
from ddpdoctor.lint.nn_modules import devices_of_parts, moved
from ddpdoctor.lint.tensors import device_of, held_in
from ddpdoctor.lint.values import (
    Const,
    Device,
    Name,
    Object,
    Unknown,
    Value,
)


def wrap(call: Call) -> Value:
    run = call.run
    module = call.argument("module") or Unknown()
    call.record(
        "wrap",
        device=device_of(run, module),
        module=module,
        device_ids=call.argument("device_ids"),
        output_device=call.argument("output_device"),
        parts=devices_of_parts(run, module),
        api=call.api,
    )
    attributes = {"#wrapped": module, "module": module, "#device": device_of(run, module)}
    return Object(Name(call.name), attributes, call.place)


def shard(call: Call) -> Value:
    run = call.run
    module = call.argument("module") or Unknown()
    given = call.given("device_id")
    device = None if given is None else as_device(given, run.path)
    call.record(
        "shard",
        device=device,
        module=module,
        mesh=call.given("mesh"),
    )
    # FullyShardedDataParallel moves a CPU module to device_id, fully_shard to the current device.
    # Without device_id the program has to move it; where it ends up then is not known.
    if "on" in call.api.facts:
        moved(run, module, Device(call.api.facts["on"]), call.place)
    elif is_cpu(device_of(run, module)):
        target = Unknown() if device is None or isinstance(device, Const) else device
        moved(run, module, target, call.place)
    return Object(Name(call.name), {"#wrapped": module, "module": module}, call.place)


def parallel(call: Call) -> Value:
    """DataParallel is one process on several GPUs: no rank, and nothing of it is misplaced."""
    module = call.argument("module") or Unknown()
    return Object(Name(call.name), {"#wrapped": module, "module": module}, call.place)


def collective(call: Call) -> Value:
    tensor = call.argument("tensor")
    device = None if tensor is None else device_of(call.run, tensor)
    listed = call.argument("list")
    held = () if listed is None else held_in(listed)
    call.record(
        "collective",
        device=device,
        tensor=tensor,
        listed=tuple(device_of(call.run, each) for each in held),
        group=call.arguments.get(None, "group"),
    )
    return Unknown()


def objects(call: Call) -> Value:
    payload = call.argument("payload")
    held = [] if payload is None else held_in(payload)
    members = [value.attributes.get("#members", value) for value in held]
    call.record(
        "objects",
        payload_devices=[device_of(call.run, value) for value in members],
        group=call.argument("group"),
        device=call.given("device"),
    )
    return Const(None)


def barrier(call: Call) -> Value:
    call.record(
        "barrier",
        device_ids=call.given("device_ids"),
        group=call.argument("group"),
    )
    return Const(None)
