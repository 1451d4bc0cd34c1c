"""libcst is as it always is, although it was started in less time."""

from __future__ import annotations

import subprocess
import sys

DESCRIBE = """\
import dataclasses, inspect
usual = dataclasses.dataclass
{start}
assert dataclasses.dataclass is usual
import libcst as cst, libcst.metadata
for module in (cst, libcst.metadata):
    for name, cls in sorted(vars(module).items()):
        if inspect.isclass(cls):
            print(name, sorted(cls.__dict__), cls.__eq__.__qualname__, cls.__repr__.__qualname__)
            print(cls.__hash__ and cls.__hash__.__qualname__, getattr(cls, "__match_args__", ()))
node = cst.parse_expression("f(x)")
print(node, node == node.deep_clone(), node == node, hash(node) == id(node))
try:
    node.func = node
except dataclasses.FrozenInstanceError:
    print("frozen")
"""


def described(start: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", DESCRIBE.format(start=start)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_it_is_the_same_libcst() -> None:
    usual = described("import libcst")
    quick = described("from ddpdoctor.lint.libcst_start import import_libcst; import_libcst()")
    assert quick == usual
    assert quick.endswith("frozen\n")
    assert quick.count("\n") > 500
