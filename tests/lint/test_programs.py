"""Which programs are found in folders, and around modules, before anything is parsed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddpdoctor.cli import cli
from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint import apis, lint, scan
from ddpdoctor.lint.programs import Candidates, candidates
from ddpdoctor.lint.run import MOST_FILES
from ddpdoctor.lint.scan import Scan
from ddpdoctor.lint.signs import Signs

OPENS = "import torch.distributed as dist\n\ndef setup():\n    dist.init_process_group('nccl')\n"
GUARD = "\nif __name__ == '__main__':\n    main()\n"
MISPLACED = """\
import torch
import torch.distributed as dist
from net import Net
dist.init_process_group("nccl")
net = torch.nn.parallel.DistributedDataParallel(Net().cuda())
"""
NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.zeros(3, device="cuda:0")
"""


def project(folder: Path, files: dict[str, str]) -> Path:
    (folder / "pyproject.toml").touch()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def found(folder: Path, *given: str) -> Candidates:
    tables = apis.load()
    paths = [folder / name for name in given] or [folder]
    return candidates(paths, tables, Scan(Signs(tables)), lambda file: False)


def names(paths: list[Path], folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in paths]


@pytest.mark.parametrize(
    "line",
    [
        "from trl import SFTTrainer; SFTTrainer(model)",
        "import transformers; transformers.Seq2SeqTrainer(model)",
        "from pytorch_lightning import Trainer; Trainer(devices=2)",
        "import accelerate; accelerate.accelerator.Accelerator()",
    ],
)
def test_a_job_is_also_started_by_the_other_names_of_a_call(tmp_path: Path, line: str) -> None:
    folder = project(tmp_path, {"train.py": f"model = None\n{line}\n{GUARD}"})
    assert names(found(folder).entries, folder) == ["train.py"]


@pytest.mark.parametrize(
    "main",
    [
        "from lib.setup import setup" + GUARD,
        "from lib import setup" + GUARD,
        "import lib.setup" + GUARD,
        "def main():\n    import lib.setup as s\n    s.setup()" + GUARD,
        "from middle import run\nrun()\n",
        "from middle import (\n    other,  # (\n    run,\n)\nfor _ in range(3):\n    run()\n",
        "import os, middle\nwith open('x') as f:\n    middle.run()\n",
        "import middle\r\nmiddle.run()\r\n",
    ],
)
def test_a_script_leads_to_a_distributed_module_through_any_import(
    tmp_path: Path, main: str
) -> None:
    folder = project(
        tmp_path,
        {
            "main.py": main,
            "lib/__init__.py": "from .setup import setup\n",
            "lib/setup.py": OPENS,
            "middle.py": "from lib.setup import setup as run\nother = 1\n",
        },
    )
    assert names(found(folder).entries, folder) == ["main.py"]


def test_a_package_that_imports_a_distributed_module_for_other_names_does_not_count(
    tmp_path: Path,
) -> None:
    folder = project(
        tmp_path,
        {
            "main.py": "from lib import plain" + GUARD,
            "lib/__init__.py": "from .setup import setup\nfrom .plain import plain\n",
            "lib/setup.py": OPENS,
            "lib/plain.py": "def plain(): pass\n",
        },
    )
    assert found(folder).entries == []


@pytest.mark.parametrize(
    "module",
    [
        OPENS,
        OPENS + "logger = logging.getLogger(__name__)\n",
        OPENS + "if True:\n    x = setup()\n",
    ],
)
def test_a_module_that_runs_nothing_is_no_script(tmp_path: Path, module: str) -> None:
    folder = project(tmp_path, {"setup_dist.py": module})
    assert found(folder).entries == []


@pytest.mark.parametrize(
    "script",
    [
        "from accelerate import Accelerator\naccelerator = Accelerator()\n",
        "import pytorch_lightning as pl\ntrainer = pl.Trainer(devices=2)\n",
        "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)\n",
        "import horovod.torch as hvd\nhvd.init()\n",
        "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Net)\n",
    ],
)
def test_frameworks_open_groups_too(tmp_path: Path, script: str) -> None:
    folder = project(tmp_path, {"train.py": script})
    assert names(found(folder).entries, folder) == ["train.py"]


def test_circular_imports_end(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        {
            "main.py": "import a" + GUARD,
            "other.py": "import b" + GUARD,
            "a.py": "import b\n",
            "b.py": "import a, main\n",
        },
    )
    assert found(folder).entries == []


def test_a_module_is_judged_in_the_programs_that_import_it(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        {"train.py": MISPLACED, "sub/other.py": OPENS + GUARD, "net.py": NET, "unused.py": NET},
    )
    candidates = found(folder, "net.py")
    assert names(candidates.around, folder) == ["train.py"]
    findings = lint([folder / "net.py"]).findings
    assert [(Path(f.filename or "").name, f.code) for f in findings] == [("net.py", "DDP103")]
    assert found(folder, "unused.py").around == []


def test_around_a_module_outside_any_project_only_its_folder_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, {"net.py": NET, "train.py": MISPLACED, "far/away.py": MISPLACED})
    read: list[str] = []
    content_of = scan.read

    def spy(path: Path) -> bytes:
        read.append(path.name)
        return content_of(path)

    monkeypatch.setattr(scan, "read", spy)
    found(folder, "net.py")
    assert "away.py" in read
    read.clear()
    (folder / "pyproject.toml").unlink()
    assert names(found(folder, "net.py").around, folder) == ["train.py"]
    assert "away.py" not in read


def test_a_script_that_is_given_reports_all_its_files(tmp_path: Path) -> None:
    folder = project(tmp_path, {"train.py": MISPLACED, "net.py": NET})
    files = {Path(f.filename or "").name for f in lint([folder / "train.py"]).findings}
    assert files == {"train.py", "net.py"}
    both = lint([folder / "net.py", folder / "train.py"])
    assert {Path(f.filename or "").name for f in both.findings} == {"train.py", "net.py"}
    assert both.programs == 1


def test_the_same_module_is_searched_from_each_script_anew(tmp_path: Path) -> None:
    """lib/common.py imports `settings`: of the folder of the script that runs."""
    settings = "device = 'cuda{}'\n"
    script = "import torch.distributed as dist\nfrom lib import common\ncommon.run()\n"
    folder = project(
        tmp_path,
        {
            "lib/common.py": "import torch\nimport torch.distributed as dist\n"
            "from settings import device\n\ndef run():\n"
            "    dist.init_process_group('nccl')\n    torch.zeros(3, device=device)\n",
            "one/main.py": script,
            "one/settings.py": settings.format(":0"),
            "two/main.py": script,
            "two/settings.py": settings.format(""),
        },
    )
    codes = {f.code for f in lint([folder / "one", folder / "two"]).findings}
    assert {"DDP103", "DDP102"} <= codes


def test_folders_of_tools_and_hidden_ones_are_left_out(tmp_path: Path) -> None:
    scripts = {
        f"{name}/train.py": MISPLACED
        for name in ("venv", ".venv", ".git", "node_modules", "__pycache__", "site-packages", "x")
    }
    folder = project(tmp_path, scripts)
    assert names(found(folder).entries, folder) == ["x/train.py"]


def test_a_folder_without_a_python_file_and_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DdpdoctorError, match="no Python file"):
        found(tmp_path)
    with pytest.raises(DdpdoctorError, match="no such file"):
        found(tmp_path, "train.py")


def test_links_to_folders_are_not_followed_and_loops_end(tmp_path: Path) -> None:
    folder = project(tmp_path, {"sub/train.py": MISPLACED})
    os.symlink(folder, folder / "sub" / "loop")
    os.symlink(folder / "sub" / "loop2", folder / "sub" / "loop2")
    assert names(found(folder).entries, folder) == ["sub/train.py"]


def test_a_linked_script_imports_what_is_beside_the_file_it_leads_to(tmp_path: Path) -> None:
    files = {"lab/train.py": MISPLACED, "lab/net.py": NET, "bin/a.py": "print()\n"}
    folder = project(tmp_path, files)
    (folder / "lab" / "pyproject.toml").touch()
    (folder / "bin" / "run.py").symlink_to(folder / "lab" / "train.py")
    for asked in (folder / "bin" / "run.py", folder / "bin"):
        linted = lint([asked])
        assert {Path(str(finding.filename)).name for finding in linted.findings} == {
            "run.py",
            "net.py",
        }


def test_a_program_of_two_names_is_judged_once(tmp_path: Path) -> None:
    folder = project(tmp_path, {"a/train.py": MISPLACED})
    (folder / "a" / "main.py").symlink_to("train.py")
    (folder / "b").symlink_to("a")
    assert names(found(folder, "a/train.py", "b", "a").entries, folder) == ["a/train.py"]


def test_imports_for_the_type_checker_alone_are_not_followed(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        {
            "train.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import broken\n"
            + MISPLACED,
            "net.py": NET,
            "broken.py": "def",
        },
    )
    linted = lint([folder / "train.py"])
    assert linted.skipped == ()
    assert linted.findings


def test_a_program_of_more_files_than_any_is_not_followed_to_its_end(tmp_path: Path) -> None:
    imports = "".join(f"import part{number}\n" for number in range(MOST_FILES + 1))
    parts = {f"part{number}.py": "" for number in range(MOST_FILES + 1)}
    folder = project(tmp_path, {"train.py": imports + MISPLACED, "net.py": NET, **parts})
    linted = lint([folder / "train.py"])
    assert linted.unfinished
    assert linted.findings
    run = CliRunner().invoke(cli, ["lint", "--no-cache", "--verbose", str(folder / "train.py")])
    assert "Not followed to the end: 1 program" in run.output
    assert "train.py is too large to be followed to its end." in run.output
    (folder / "train.py").write_text(MISPLACED)
    assert lint([folder / "train.py"]).unfinished == ()


@pytest.mark.parametrize("sign", [".gitignore", "LICENSE", "requirements.txt", "README.md"])
def test_a_checkout_without_its_history(tmp_path: Path, sign: str) -> None:
    for name, text in {
        "tools/README.md": "",
        "tools/train.py": "from lib.setup_ import setup\nsetup()\n",
        "lib/setup_.py": OPENS,
        sign: "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if sign == "README.md":
        (tmp_path / "tools/README.md").unlink()
    assert names(found(tmp_path).entries, tmp_path) == ["tools/train.py"]
