"""What happens in an injected process once torch is imported: virtual GPUs, then the hooks."""

from __future__ import annotations

import importlib
import os

from ddpdoctor.virtual.devices import HOOKS_VARIABLE, Machine


def after_torch() -> None:
    """Called by inject/sitecustomize.py. A hook that fails ends the import, and so the program."""
    machine = Machine.from_environment(os.environ)
    if machine is not None:
        from ddpdoctor.virtual.switch import switch_on

        switch_on(machine)
    for hook in filter(None, os.environ.get(HOOKS_VARIABLE, "").split(",")):
        module, _, function = hook.partition(":")
        getattr(importlib.import_module(module), function)()
