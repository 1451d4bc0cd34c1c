"""Writes ddpdoctor/virtual/checked_kernels.json: which CUDA kernels check that their tensors share
a device.

PyTorch generates that check for every CUDA kernel whose entry in native_functions.yaml does not say
`device_check: NoCheck`; the file comes with torch (torchgen/packaged). The table maps an operation
with its overload to the kernel as its error message names it. Made with torch 2.13.

    python benchmarks/virtual_checked_kernels.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torchgen
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import DeviceCheckType, DispatchKey, NativeFunction, NativeFunctionsGroup

TABLE = Path(__file__).parent.parent / "ddpdoctor" / "virtual" / "checked_kernels.json"


def main() -> None:
    packaged = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(packaged / "native_functions.yaml"), str(packaged / "tags.yaml"))
    cuda = parsed.backend_indices[DispatchKey.CUDA]
    table: dict[str, str] = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        functions = group.functions() if isinstance(group, NativeFunctionsGroup) else [group]
        structured = isinstance(group, NativeFunctionsGroup) and group.structured
        for function in functions:
            has_kernel = cuda.has_kernel(group.out if structured else function)
            if has_kernel and function.device_check is not DeviceCheckType.NoCheck:
                table[f"aten::{function.func.name}"] = _kernel(function, structured)
    TABLE.write_text(json.dumps(dict(sorted(table.items())), indent=0) + "\n")
    print(f"{len(table)} kernels in {TABLE}")


def _kernel(function: NativeFunction, structured: bool) -> str:
    """torchgen/dest/register_dispatch_key.py: how the wrapper is called."""
    name, overload = str(function.func.name.name), function.func.name.overload_name
    if not structured:
        return f"wrapper_CUDA_{overload}_{name}"
    out = "_out" if function.func.is_out_fn() else ""
    return f"wrapper_CUDA_{name}{out}" + (f"_{overload}" if overload else "")


if __name__ == "__main__":
    main()
