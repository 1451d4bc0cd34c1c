"""`ddpdoctor lint` as a user runs it: what it prints, its exit codes, and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ddpdoctor.cli import main

BAD = """\
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
net = torch.nn.Linear(1, 1).cuda(0)
net.load_state_dict(torch.load("x.pt"))
"""
SAFE = BAD.replace('"x.pt"', '"x.pt", map_location="cpu"')
CLEAN = SAFE.replace("cuda(0)", "cuda()")
FOUND = ["DDP103", "DDP104"]


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`ddpdoctor lint ARGUMENTS` from a folder, in this process: a new one takes a second each."""

    def run(*arguments: str, cwd: Path) -> Result:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["ddpdoctor", "lint", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Result(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(BAD)
    return tmp_path


# -- reports ------------------------------------------------------------------------------------


def test_findings_are_told_and_give_exit_code_1(run: Run, folder: Path) -> None:
    result = run("train.py", cwd=folder)
    assert (result.returncode, result.stderr) == (1, "")
    assert "train.py:8" in result.stdout
    assert "DDP103 error: " in result.stdout
    assert "DDP104 warning: " in result.stdout
    assert "Found 1 error and 1 warning: DDP103 x1, DDP104 x1." in result.stdout
    assert "`--fix` repairs 1 and `--fix --unsafe-fixes` repairs 2 of 2" in result.stdout


def test_a_clean_program_gives_exit_code_0_and_says_what_was_looked_at(
    run: Run, folder: Path
) -> None:
    (folder / "train.py").write_text(CLEAN)
    result = run("train.py", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "No misplacement found: 1 file looked at, 1 distributed program.\n"


def test_no_path_means_the_current_folder(run: Run, folder: Path) -> None:
    assert run(cwd=folder).stdout == run(".", cwd=folder).stdout
    assert run(cwd=folder).returncode == 1


@pytest.mark.parametrize("output_format", ["concise", "json", "sarif", "github"])
def test_other_formats_have_the_report_alone_on_standard_output(
    run: Run, folder: Path, output_format: str
) -> None:
    result = run("--output-format", output_format, "train.py", cwd=folder)
    assert result.returncode == 1
    assert "Found 1 error and 1 warning" in result.stderr
    if output_format in ("concise", "github"):
        assert len(result.stdout.splitlines()) == 2
        codes = [code for code in FOUND if code in result.stdout]
    elif output_format == "json":
        codes = [one["code"] for one in json.loads(result.stdout)]
    else:
        codes = [one["ruleId"] for one in json.loads(result.stdout)["runs"][0]["results"]]
    assert codes == FOUND


def test_json_has_the_names_of_ruff(run: Run, folder: Path) -> None:
    result = run("--output-format", "json", "train.py", cwd=folder)
    first, second = json.loads(result.stdout)
    assert {"code", "message", "severity", "filename", "location", "end_location", "fix"} <= set(
        first
    )
    assert Path(first["filename"]).name == "train.py"
    assert first["location"] == {"row": 8, "column": 34}
    assert first["end_location"] == {"row": 8, "column": 35}
    assert second["fix"]["applicability"] == "safe"
    assert [edit["content"] for edit in second["fix"]["edits"]] == [', map_location="cpu"']


# -- repairs ------------------------------------------------------------------------------------


def test_fix_makes_the_safe_repairs_and_tells_what_is_left(run: Run, folder: Path) -> None:
    result = run("--fix", "train.py", cwd=folder)
    assert (result.returncode, result.stderr) == (1, "")
    assert (folder / "train.py").read_text() == SAFE
    assert "DDP103" in result.stdout
    assert "DDP104" not in result.stdout
    assert result.stdout.endswith("1 finding repaired in 1 file.\n")


def test_with_the_unsafe_repairs_nothing_is_left(run: Run, folder: Path) -> None:
    result = run("--fix", "--unsafe-fixes", "train.py", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "No misplacement found: 1 file looked at, 1 distributed program.\n"
        "2 findings repaired in 1 file.\n"
    )
    assert os.listdir(folder) == ["train.py"]
    again = run("--fix", "--unsafe-fixes", "train.py", cwd=folder)
    assert again.returncode == 0
    assert again.stdout.endswith("Nothing to repair.\n")


def test_repairs_beside_json_are_told_on_standard_error(run: Run, folder: Path) -> None:
    result = run("--fix", "--output-format", "json", "train.py", cwd=folder)
    assert [one["code"] for one in json.loads(result.stdout)] == ["DDP103"]
    assert "1 finding repaired in 1 file." in result.stderr


def test_diff_shows_the_repairs_and_writes_nothing(run: Run, folder: Path) -> None:
    before = (folder / "train.py").stat().st_mtime_ns
    result = run("--diff", "train.py", cwd=folder)
    assert result.returncode == 1
    assert result.stderr == "1 finding to repair in 1 file.\n"
    changed = [line for line in result.stdout.splitlines() if line[:1] in "+-"]
    assert changed == [
        "--- train.py",
        "+++ train.py",
        '-net.load_state_dict(torch.load("x.pt"))',
        '+net.load_state_dict(torch.load("x.pt", map_location="cpu"))',
    ]
    assert (folder / "train.py").stat().st_mtime_ns == before


def test_diff_of_nothing_gives_exit_code_0(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(SAFE)
    result = run("--diff", "train.py", cwd=folder)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "Nothing to repair without --unsafe-fixes.\n"


@pytest.mark.parametrize(
    "data",
    [
        BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + BAD.encode(),
        ("# coding: latin-1\n" + BAD + "# \xe9").encode("latin-1"),
    ],
    ids=["plain", "windows", "byte order mark", "latin-1"],
)
def test_patch_makes_of_the_diff_what_fix_makes(run: Run, folder: Path, data: bytes) -> None:
    path = folder / "train.py"
    path.write_bytes(data)
    command = [sys.executable, "-m", "ddpdoctor", "lint", "--diff", "--unsafe-fixes", "train.py"]
    diff = subprocess.run(command, cwd=folder, capture_output=True, timeout=60).stdout
    apply = ["patch", "--binary", "-p0", "-i", "-"]
    subprocess.run(apply, cwd=folder, input=diff, check=True, capture_output=True, timeout=60)
    patched = path.read_bytes()
    path.write_bytes(data)
    run("--fix", "--unsafe-fixes", "train.py", cwd=folder)
    assert path.read_bytes() == patched != data


def test_unsafe_fixes_alone_is_refused(run: Run, folder: Path) -> None:
    result = run("--unsafe-fixes", "train.py", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ddpdoctor: --unsafe-fixes goes with --fix or --diff\n"


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("broken.py", b"def f(:\n", "syntax error at line 1"),
        ("latin.py", b"x = '\xe9'\n", "is not valid text in its encoding (UTF-8 unless declared)"),
        ("null.py", b"x = 1\0\n", "contains null bytes"),
        ("cookie.py", b"# coding: klingon\n", None),
        ("deep.py", b"x = " + b"(" * 5000 + b")" * 5000, "nests deeper than 200 brackets"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(
    run: Run, tmp_path: Path, name: str, data: bytes, reason: str | None
) -> None:
    (tmp_path / name).write_bytes(data)
    for options in ([], ["--fix"], ["--diff"]):
        result = run(*options, name, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"ddpdoctor: {name}: ")
        assert result.stderr.count("\n") == 1
        if reason is not None:
            assert result.stderr == f"ddpdoctor: {name}: {reason}\n"
        assert (tmp_path / name).read_bytes() == data


def test_a_broken_file_in_a_folder_is_named_and_the_rest_is_judged(run: Run, folder: Path) -> None:
    (folder / "broken.py").write_text(BAD + "if __name__ x\n")
    result = run(".", cwd=folder)
    assert result.returncode == 1
    assert "Skipped broken.py: syntax error at line 10" in result.stdout
    assert "DDP103" in result.stdout


def test_a_path_that_cannot_be_looked_up_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    name = "a" * 5000  # an error of the file system other than that there is none, as EACCES is
    result = run(name, cwd=tmp_path)
    assert result == Result(2, "", f"ddpdoctor: {name}: no such file or folder\n")


def test_a_missing_path_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    result = run("nothing.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ddpdoctor: nothing.py: no such file or folder\n"


def test_a_folder_without_python_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    result = run(".", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ddpdoctor: .: no Python file in this folder\n"


def test_a_program_that_is_not_distributed_is_not_called_healthy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\ntorch.ones(1).cuda()\n")
    result = run("plain.py", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "No distributed program found, so nothing was judged: 1 file looked at.\n"
    )


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_an_unknown_rule_is_one_clear_line(run: Run, folder: Path, option: str) -> None:
    result = run(option, "DDP101,XYZ", "train.py", cwd=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ddpdoctor: unknown rule XYZ; `ddpdoctor rules` lists them\n"


def test_rules_can_be_chosen_and_left_out(run: Run, folder: Path) -> None:
    for options, codes in (
        (["--select", "DDP103"], ["DDP103"]),
        (["--select", "ddp1"], FOUND),
        (["--ignore", "DDP103"], ["DDP104"]),
        (["--select", "DDP1", "--ignore", "DDP104"], ["DDP103"]),
    ):
        result = run(*options, "--output-format", "json", "train.py", cwd=folder)
        assert [one["code"] for one in json.loads(result.stdout)] == codes


def test_the_exit_code_is_that_of_the_process(folder: Path) -> None:
    for name, code in (("train.py", 1), ("missing.py", 2)):
        command = [sys.executable, "-m", "ddpdoctor", "lint", name]
        assert (
            subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode == code
        )


def test_a_reader_that_stops_early_sees_no_traceback(run: Run, folder: Path) -> None:
    (folder / "train.py").write_text(BAD + "torch.ones(1).cuda(0)\n" * 500)
    command = f"{sys.executable} -m ddpdoctor lint train.py 2>errors | head -1"
    first = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, timeout=120
    ).stdout
    assert first.startswith("DDP103")
    assert (folder / "errors").read_text() == ""


def test_output_that_cannot_be_written_is_one_clear_line(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "ddpdoctor", "lint", "train.py"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert result.returncode == 2
    assert result.stderr == "ddpdoctor: [Errno 28] No space left on device\n"


def test_a_closed_standard_output_changes_nothing_else(folder: Path) -> None:
    command = f"{sys.executable} -m ddpdoctor lint train.py >&- 2>errors"
    assert subprocess.run(command, shell=True, cwd=folder, timeout=60).returncode == 1
    assert (folder / "errors").read_text() == ""


def test_an_interrupted_run_does_not_look_like_findings(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ddpdoctor.lint.command.lint", interrupted)
    result = run("train.py", cwd=folder)
    assert (result.returncode, result.stdout) == (130, "")
