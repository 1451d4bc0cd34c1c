"""Imports inside the project: what a name means, and which files a program consists of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddpdoctor.lint import lint

if TYPE_CHECKING:
    from tests.lint.conftest import Check

SETUP = """
import os, torch
import torch.distributed as dist

GPU = 2  # DDP103

def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
"""
USE = "\nsetup()\ntorch.ones(1).cuda()\ntorch.ones(1, device=GPU)\n"


@pytest.mark.parametrize(
    ("statement", "files"),
    [
        ("from setup_ import setup, GPU", ["setup_.py"]),
        ("from setup_ import *", ["setup_.py"]),
        ("import setup_; setup = setup_.setup; GPU = setup_.GPU", ["setup_.py"]),
        ("import setup_ as s; setup, GPU = s.setup, s.GPU", ["setup_.py"]),
        ("from lib.setup_ import setup, GPU", ["lib/setup_.py", "lib/__init__.py"]),
        ("from lib.setup_ import setup, GPU", ["lib/setup_.py"]),  # a namespace package
        ("from lib import setup_; setup, GPU = setup_.setup, setup_.GPU", ["lib/setup_.py"]),
        (
            "import lib.setup_; setup, GPU = lib.setup_.setup, lib.setup_.GPU",
            ["lib/setup_.py", "lib/__init__.py"],
        ),
        ("import lib.deep.setup_ as s; setup, GPU = s.setup, s.GPU", ["lib/deep/setup_.py"]),
        ("from setup_ import setup, GPU", ["src/setup_.py"]),
        (
            "sys.path.append('third_party'); from setup_ import setup, GPU",
            ["third_party/setup_.py"],
        ),
        (
            "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib')); "
            "from setup_ import setup, GPU",
            ["lib/setup_.py"],
        ),
        (
            "sys.path.append(os.path.join(os.path.dirname(__file__), 'deep', os.pardir, 'lib')); "
            "from setup_ import setup, GPU",
            ["lib/setup_.py", "deep/__init__.py"],
        ),
        (
            "import importlib; s = importlib.import_module('lib.setup_'); "
            "setup, GPU = s.setup, s.GPU",
            ["lib/setup_.py"],
        ),
    ],
)
def test_the_ways_to_import(check: Check, statement: str, files: list[str]) -> None:
    check(statement + USE, {files[0]: SETUP, **dict.fromkeys(files[1:], "")})


def test_a_package_gives_out_what_its_modules_define(check: Check) -> None:
    check(
        "from lib import setup, GPU" + USE,
        {
            "lib/__init__.py": "from .inner import *\nfrom .other import GPU\n",
            "lib/inner.py": "from lib.deeper.setup_ import setup\n",
            "lib/deeper/__init__.py": "",
            "lib/deeper/setup_.py": SETUP.replace("DDP103", ""),
            "lib/other.py": "GPU = 3  # DDP103\n",
        },
    )


def test_relative_imports_climb(check: Check) -> None:
    check(
        "from lib.a.b.use import run\nrun()\n",
        {
            "lib/__init__.py": "",
            "lib/top.py": SETUP,
            "lib/a/__init__.py": "from ..top import GPU\n",
            "lib/a/b/__init__.py": "",
            "lib/a/b/use.py": """
                import torch
                from .. import GPU
                from ...top import setup

                def run():
                    setup()
                    torch.ones(1).cuda()
                    torch.ones(1, device=GPU)
                """,
        },
    )


def test_star_imports_keep_private_names_and_follow_all(check: Check) -> None:
    check(
        """
    from first import *
    from second import *
    dist.init_process_group("nccl")
    torch.ones(1, device=shown)
    torch.ones(1, device=_listed)
    torch.ones(1, device=_hidden)
    torch.ones(1, device=unlisted)
    """,
        {
            "first.py": "shown = 1  # DDP103\n_hidden = 2\n",
            "second.py": "__all__ = ['_listed']\n_listed = 3  # DDP103\nunlisted = 4\n",
        },
    )


def test_circular_imports_see_what_is_there_so_far(check: Check) -> None:
    check(
        """
    import a
    dist.init_process_group("nccl")
    a.run()
    """,
        {
            "a.py": """
                FIRST = 1  # DDP103
                import b
                SECOND = 2  # DDP103

                def run():
                    b.place()
                """,
            "b.py": """
                import torch
                from a import FIRST
                import a

                def place():
                    torch.ones(1, device=FIRST)
                    torch.ones(1, device=a.SECOND)
                """,
        },
    )


def test_a_module_runs_once(check: Check) -> None:
    check(
        """
    import state
    from state import bind
    import state as again
    again.index = int(os.environ["LOCAL_RANK"])
    torch.ones(1, device=state.index)
    """,
        {
            "state.py": """
                import torch.distributed as dist
                dist.init_process_group("nccl")
                index = 0
                def bind():
                    pass
                """
        },
    )


def test_an_import_binds_the_process(check: Check) -> None:
    check(
        """
    import setup_
    torch.ones(1).cuda()
    """,
        {"setup_.py": SETUP.replace("DDP103", "") + "\nsetup()\n"},
    )


def test_a_finding_stands_in_the_imported_file(check: Check) -> None:
    found = check(
        """
    from net import place
    dist.init_process_group("nccl")  # DDP201
    place()
    """,
        {"net.py": "import torch\n\ndef place():\n    torch.ones(1).cuda()  # DDP101\n"},
    )
    assert found["DDP101"].filename.endswith("net.py")
    assert [r.filename.endswith("net.py") for r in found["DDP201"].related] == [True]


def test_an_import_inside_a_function(check: Check) -> None:
    check(
        """
    def main():
        from setup_ import setup
        setup()
        torch.ones(1).cuda()

    main()
    """,
        {"setup_.py": SETUP.replace("DDP103", "")},
    )


def test_a_guarded_import_takes_the_module_that_is_there(check: Check) -> None:
    check(
        """
    try:
        from fast import GPU
    except ImportError:
        from slow import GPU
    try:
        import apex.parallel
    except ImportError:
        apex = None
    if TYPE_CHECKING:
        from nowhere import other
    dist.init_process_group("nccl")
    torch.ones(1, device=GPU)
    """,
        {"fast.py": "GPU = 1  # DDP103\n", "slow.py": "GPU = 2\n"},
    )


def test_what_is_imported_from_a_file_that_is_missing_is_unknown(check: Check) -> None:
    check("""
    from lost import GPU, setup
    from .lost import other
    dist.init_process_group("nccl")
    torch.ones(1, device=GPU)
    torch.ones(1, device=other)
    """)


@pytest.mark.parametrize("name", ["bind_process", "setup_gpus", "launch"])
def test_a_function_of_a_file_that_is_missing_may_bind(check: Check, name: str) -> None:
    check(f"""
    from lost import {name}
    {name}()
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


def test_a_package_named_after_its_checkout(check: Check) -> None:
    check(
        "from project.setup_ import setup, GPU" + USE,
        {
            "project/pyproject.toml": "",
            "project/__init__.py": "",
            "project/setup_.py": SETUP,
        },
        entry="project/tools/train.py",
    )


def test_a_script_in_a_folder_of_a_src_layout(check: Check) -> None:
    check(
        "from package.setup_ import setup, GPU" + USE,
        {"src/package/__init__.py": "", "src/package/setup_.py": SETUP},
        entry="scripts/deep/train.py",
    )


def test_a_module_beside_the_script_comes_first(check: Check) -> None:
    check(
        "from setup_ import setup, GPU" + USE,
        {"tools/setup_.py": SETUP, "setup_.py": "GPU = setup = None\n"},
        entry="tools/train.py",
    )


def test_a_project_module_may_be_named_like_anything_but_a_known_library(check: Check) -> None:
    check(
        "from utils import setup, GPU" + USE,
        {"utils/__init__.py": SETUP, "torch.py": "ones = None\n", "argparse.py": ""},
    )


def test_a_syntax_error_in_an_imported_file_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def broken(:\n")
    (tmp_path / "train.py").write_text(
        "import torch, net\nimport torch.distributed as dist\n"
        'dist.init_process_group("nccl")\ntorch.ones(1, device=0)\n'
    )
    linted = lint([tmp_path / "train.py"])
    assert [finding.code for finding in linted.findings] == ["DDP103"]
    assert len(linted.skipped) == 1
    assert "net.py: syntax error at line 1" in linted.skipped[0]


@pytest.mark.parametrize("package", ["__package__", "__name__", "package='lib'"])
def test_a_package_imports_a_file_that_it_is_given_the_name_of(check: Check, package: str) -> None:
    check(
        "from lib import load\nsetup, GPU = load('setup_').setup, load('setup_').GPU" + USE,
        {
            "lib/__init__.py": f"""
            import importlib

            def load(name):
                return importlib.import_module("." + name, {package})
            """,
            "lib/setup_.py": SETUP,
        },
    )
