"""The first operation of this process whose tensors are on different devices.

On virtual GPUs the operation and its tensors come from the check itself, on real ones from the
frames of the exception after the fact; both name each tensor as the program does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

import ddpdoctor.virtual
from ddpdoctor.probe.agent.user_code import (
    Frames,
    assigned_before,
    has_virtual_gpus,
    stack,
    user_place,
)
from ddpdoctor.probe.records import Recorder
from ddpdoctor.virtual.user_files import is_user_file

# What PyTorch says where the devices of one operation differ (TensorIterator and the meta checks,
# cuDNN and batch norm, indexing, DDP's own check of its inputs).
_TEXTS = re.compile(
    r"Expected all tensors to be on the same device"
    r"|should be the same"
    r"|indices should be either on cpu or on the same device"
    r"|found at least two devices"
    r"|must have its parameters and buffers on device"
)
# "... (when checking argument for argument mat1 in method wrapper_CUDA_addmm)"
_METHOD = re.compile(r"in method (?:wrapper_(?:CUDA_+)?)?(\w+?)_?\)")

_seen: list[bool] = []  # one entry as soon as this process has recorded its mismatch


def install(recorder: Recorder) -> None:
    if not has_virtual_gpus():
        return

    def on_mismatch(operation: str, tensors: list[torch.Tensor], message: str) -> None:
        frames = stack(sys._getframe(1))
        named = [_named(tensor, frames) for tensor in tensors]
        _record(recorder, operation, named, message, frames)

    ddpdoctor.virtual.on_mismatch(on_mismatch)


def record_from_traceback(recorder: Recorder, error: BaseException, frames: Frames) -> None:
    """The mismatch that an exception tells of, if it does and none was recorded yet."""
    message = str(error)
    if not isinstance(error, (RuntimeError, ValueError)) or not _TEXTS.search(message):
        return
    method = _METHOD.search(message)
    # The innermost frame is the one that called into C++; what it holds went into the operation.
    named = _tensors_of(frames[0][0], frames) if frames else []
    innermost = frames[0][0].f_code.co_name if frames else ""
    _record(recorder, method[1] if method else innermost, named, message, frames)


def describe(tensor: torch.Tensor, name: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": str(tensor.device),
        "made": None,
    }


def _record(
    recorder: Recorder,
    operation: str,
    tensors: list[dict[str, Any]],
    message: str,
    frames: Frames,
) -> None:
    if _seen:
        return
    _seen.append(True)
    recorder.write(
        "mismatch",
        operation=operation,
        tensors=tensors,
        message=message.splitlines()[0] if message else "",
        module=_module_path(frames),
        place=user_place(frames),
        silent=False,
    )


def _named(tensor: torch.Tensor, frames: Frames) -> dict[str, Any]:
    """The tensor under the name that the innermost frame which knows it has for it.

    A user's frame is preferred to PyTorch's own, whose argument names mean nothing to the reader;
    a parameter or buffer keeps the path of its module. What is only a view of it (the transposed
    weight of a linear layer) goes by its name, too.
    """
    for same in (_is_same, _shares_memory):
        for frame, row in frames:
            if not is_user_file(frame.f_code.co_filename):
                continue
            for name, value in _tensor_variables(frame):
                if same(value, tensor):
                    described = describe(tensor, name, "variable")
                    described["made"] = _made(name, frame, row, value, frames)
                    return described
        for owner in _modules(frames):
            for kind, members in (
                ("parameter", owner.named_parameters()),
                ("buffer", owner.named_buffers()),
            ):
                for name, value in members:
                    if same(value, tensor):
                        path = _path_of(owner, frames)
                        return describe(tensor, f"{path}.{name}" if path else name, kind)
    return describe(tensor, "", "value")


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other


def _shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse and fake tensors have no storage
        return False


def _modules(frames: Frames) -> Iterator[torch.nn.Module]:
    """The modules that run, innermost first."""
    for frame, _ in frames:
        owner = frame.f_locals.get("self")
        if isinstance(owner, torch.nn.Module):
            yield owner


def _tensors_of(frame: FrameType, frames: Frames) -> list[dict[str, Any]]:
    """What went into the operation that failed in this frame, as far as the frame shows it."""
    tensors = [value for _, value in _tensor_variables(frame)]
    owner = frame.f_locals.get("self")
    if isinstance(owner, torch.nn.Module):
        tensors += list(owner.parameters(recurse=False))
        tensors += list(owner.buffers(recurse=False))
    return [_named(tensor, frames) for tensor in tensors]


def _tensor_variables(frame: FrameType) -> Iterator[tuple[str, torch.Tensor]]:
    """The frame's own tensors: variables, and attributes of a `self` that is no module."""
    for name, value in list(frame.f_locals.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif name == "self" and hasattr(value, "__dict__"):
            for attribute, held in vars(value).items():
                if isinstance(held, torch.Tensor):
                    yield f"self.{attribute}", held


def _made(
    name: str, frame: FrameType, row: int, tensor: torch.Tensor, frames: Frames
) -> dict[str, Any] | None:
    """Where a variable was assigned; for an argument, where the caller's variable was."""
    if made := assigned_before(frame.f_code, name, row):
        return made
    for index, (candidate, _) in enumerate(frames):
        if candidate is frame:
            for caller, caller_row in frames[index + 1 :]:
                if not is_user_file(caller.f_code.co_filename):
                    continue
                for other, value in _tensor_variables(caller):
                    made = assigned_before(caller.f_code, other, caller_row)
                    if value is tensor and made:
                        return made
    return None


def _module_path(frames: Frames) -> str:
    """The innermost module's path from the outermost one: "layers.0.conv1"."""
    for owner in _modules(frames):
        return _path_of(owner, frames) or type(owner).__name__
    return ""


def _path_of(module: torch.nn.Module, frames: Frames) -> str:
    """The module's name within the outermost module that runs, wrappers' own names left out."""
    for root in reversed(list(_modules(frames))):
        for name, member in root.named_modules():
            if member is module:
                return name.removeprefix("module.") if name != "module" else ""
    return ""
