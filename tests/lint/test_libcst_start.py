"""libcst is as it always is, although it was started in less time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DESCRIBE = """\
import dataclasses, inspect, sys
usual = dataclasses.dataclass
{start}
assert dataclasses.dataclass is usual
import libcst as cst
assert ("libcst.metadata.scope_provider" in sys.modules) != {quick}
import libcst.metadata
for module in (cst, libcst.metadata):
    for name, cls in sorted(vars(module).items()):
        if inspect.isclass(cls):
            print(name, sorted(cls.__dict__), cls.__eq__.__qualname__, cls.__repr__.__qualname__)
            print(cls.__hash__ and cls.__hash__.__qualname__, getattr(cls, "__match_args__", ()))
node = cst.parse_expression("f(x)")
print(node, node == node.deep_clone(), node == node, hash(node) == id(node))
for change in (
    lambda: setattr(node, "func", node),
    lambda: setattr(node, "other", node),
    lambda: delattr(node, "func"),
):
    try:
        change()
    except (AttributeError, TypeError) as error:
        print(type(error), error)
wrapper = libcst.metadata.MetadataWrapper(cst.parse_module("def f(): x"))
print(len(wrapper.resolve(libcst.metadata.ScopeProvider)))
"""


def described(start: str, quick: bool) -> str:
    return subprocess.run(
        [sys.executable, "-c", DESCRIBE.format(start=start, quick=quick)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_it_is_the_same_libcst() -> None:
    usual = described("import libcst", False)
    quick = described(
        "from ddpdoctor.lint.libcst_start import import_libcst; import_libcst()", True
    )
    assert quick == usual
    assert "cannot assign to field 'func'" in quick
    assert quick.count("\n") > 500


def test_a_libcst_that_needs_its_whole_package_gets_it(tmp_path: Path) -> None:
    package = tmp_path / "libcst" / "metadata"
    package.mkdir(parents=True)
    (tmp_path / "libcst" / "__init__.py").write_text("from libcst.metadata import Provider\n")
    (package / "__init__.py").write_text("class Provider: pass\n")
    start = "from ddpdoctor.lint.libcst_start import import_libcst; import_libcst()"
    subprocess.run(
        [sys.executable, "-c", f"{start}; import libcst; libcst.Provider()"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        check=True,
    )
