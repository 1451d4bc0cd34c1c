"""Loads the Python binding of NVML and starts the library, or says plainly why it cannot."""

from __future__ import annotations

import importlib
from types import ModuleType

from ddpdoctor.findings import DdpdoctorError

# What ddpdoctor calls. The deprecated distribution "pynvml" (a package of the same name, which
# Python prefers to nvidia-ml-py's single file) lacks _nvmlGetFunctionPointer at its top level.
_NEEDED = (
    "NVMLError",
    "_nvmlGetFunctionPointer",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlInit",
    "nvmlShutdown",
)


class NoGpu(DdpdoctorError):
    """There is no NVIDIA GPU on this machine, or no driver for it; the text says which."""


def start() -> ModuleType:
    """The binding with NVML initialised; the caller ends it with nvmlShutdown().

    Raises NoGpu where there is no driver or it has no GPU, DdpdoctorError where there may be GPUs
    that cannot be asked.
    """
    pynvml = _binding()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _refusal(pynvml, error) from error
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        pynvml.nvmlShutdown()
        raise DdpdoctorError(f"NVML cannot count the GPUs: {error}") from error
    if count == 0:
        pynvml.nvmlShutdown()
        raise NoGpu("the NVIDIA driver reports no GPU on this machine")
    return pynvml


def _binding() -> ModuleType:
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise DdpdoctorError(
            f"the NVML binding cannot be imported ({error}): pip install nvidia-ml-py"
        ) from error
    missing = [name for name in _NEEDED if not hasattr(pynvml, name)]
    if missing:
        file = pynvml.__file__ or ", ".join(pynvml.__path__)
        raise DdpdoctorError(
            f"the module pynvml at {file} is not nvidia-ml-py's, or too old (no {missing[0]}): "
            "remove that file or the distribution 'pynvml', then pip install -U nvidia-ml-py"
        )
    return pynvml


def _refusal(pynvml: ModuleType, error: Exception) -> DdpdoctorError:
    if isinstance(error, pynvml.NVMLError_LibraryNotFound):
        return NoGpu("no NVIDIA driver on this machine: libnvidia-ml.so.1 was not found")
    if isinstance(error, pynvml.NVMLError_DriverNotLoaded):
        return NoGpu("the NVIDIA driver is not loaded")
    if isinstance(error, pynvml.NVMLError_LibRmVersionMismatch):
        return DdpdoctorError(
            "the NVIDIA driver was updated while the old one is still loaded: restart the machine"
        )
    return DdpdoctorError(f"NVML does not start: {error}")
