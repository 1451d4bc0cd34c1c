"""[tool.ddpdoctor] in pyproject.toml: what it changes, and one clear line where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ddpdoctor.cli import cli
from ddpdoctor.config import find_config
from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint import lint

BAD = """\
import torch
torch.distributed.init_process_group("nccl")
torch.ones(1, device="cuda:0")
torch.ones(1, device="cuda")
"""
HELPER = """\
import torch
from ours import everything, own_place
everything()
torch.ones(1, device="cuda")
own_place(torch.ones(1), 0)
"""
TABLE = """\
libraries = ["ours"]
[calls]
"ours.everything" = { does = "framework", groups = "sure", binds = true }
"ours.own_place" = { does = "consumes", device = "card@1" }
"""


@pytest.fixture
def project(tmp_path):
    """Writes the settings and files of a project, and gives the codes found in it by file."""

    def found(settings: str, files: dict[str, str], *, paths: tuple[str, ...] = (".",)):
        (tmp_path / "pyproject.toml").write_text("[tool.ddpdoctor]\n" + settings)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        wanted = [tmp_path / path for path in paths]
        by_file: dict[str, set[str]] = {}
        for finding in lint(wanted, find_config(wanted)).findings:
            name = Path(finding.filename).relative_to(tmp_path).as_posix()
            by_file.setdefault(name, set()).add(finding.code)
        return by_file

    return found


def test_without_settings_every_rule_applies(project):
    assert project("", {"a.py": BAD}) == {"a.py": {"DDP102", "DDP103", "DDP201"}}


def test_select_and_ignore(project):
    assert project('select = ["DDP1"]', {"a.py": BAD}) == {"a.py": {"DDP102", "DDP103"}}
    assert project('ignore = ["DDP1"]', {"a.py": BAD}) == {"a.py": {"DDP201"}}
    assert project('select = ["ddp1"]\nignore = ["DDP103"]', {"a.py": BAD}) == {"a.py": {"DDP102"}}


def test_per_file_ignores_by_name_and_by_path(project):
    files = {"a.py": BAD, "old/b.py": BAD, "tools/c.py": BAD}
    settings = '[tool.ddpdoctor.per-file-ignores]\n"old/*" = ["DDP"]\n"c.py" = ["DDP10"]'
    assert project(settings, files) == {
        "a.py": {"DDP102", "DDP103", "DDP201"},
        "tools/c.py": {"DDP201"},
    }


def test_excluded_folders_are_left_out_and_so_are_their_files_elsewhere(project):
    files = {"a.py": "import vendored.b\n", "vendored/b.py": BAD}
    assert project('exclude = ["vendored"]', files) == {}
    assert project("", files)["vendored/b.py"]


def test_files_that_are_left_out_are_not_counted_unless_a_program_runs_them(project, tmp_path):
    def looked_at(*names: str) -> int:
        wanted = [tmp_path / name for name in names]
        return lint(wanted, find_config(wanted)).files

    files = {"a.py": "import old.b\n" + BAD, "old/b.py": "", "old/c.py": BAD, "d.py": ""}
    project('exclude = ["old"]', files)
    assert looked_at(".") == 3
    assert looked_at("d.py", "a.py") == 3
    assert looked_at("old") == 0
    assert looked_at("old/c.py") == 1
    assert looked_at(".", "a.py") == 3


def test_tables_of_the_project_itself(project):
    files = {"a.py": HELPER, "facts/ours.toml": TABLE}
    assert project('apis = ["facts/ours.toml"]', files) == {"a.py": {"DDP103"}}
    assert project("", files) == {}


def test_the_nearest_file_with_settings_counts(project, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert project('select = ["DDP2"]', {"inner/a.py": BAD}, paths=("inner/a.py",)) == {
        "inner/a.py": {"DDP201"}
    }


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("colour = 1", "unknown setting 'colour'"),
        ("select = 'DDP1'", "select has to be a list of strings"),
        ("apis = [1]", "apis has to be a list of strings"),
        ("per-file-ignores = ['a']", "per-file-ignores has to be a table"),
        ("[tool.ddpdoctor.per-file-ignores]\n'a.py' = 'DDP1'", "a.py has to be a list of strings"),
        ("select = [", "not valid TOML"),
        ("select = ['DDP999']", "unknown rule DDP999"),
        ("[tool.ddpdoctor.per-file-ignores]\n'a.py' = ['X1']", "unknown rule X1"),
        ("apis = ['none.toml']", "none.toml: No such file"),
        ("apis = ['word.toml']", 'needs does = "...", one of'),
        ("apis = ['section.toml']", r"unknown section \[call\]"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(project, settings, text, tmp_path):
    (tmp_path / "word.toml").write_text('[calls]\n"a.b" = { does = "fly" }\n')
    (tmp_path / "section.toml").write_text("[call]\n")
    with pytest.raises(DdpdoctorError, match=text) as error:
        project(settings, {"a.py": BAD})
    assert "\n" not in str(error.value)


def test_the_command_line_goes_before_the_settings(project, tmp_path):
    project('select = ["DDP2"]\nignore = ["DDP102"]', {"a.py": BAD})

    def codes(*options: str) -> set[str]:
        arguments = ["lint", "--output-format", "concise", *options, str(tmp_path / "a.py")]
        output = CliRunner().invoke(cli, arguments).stdout
        return {word for word in output.split() if word.startswith("DDP")}

    assert codes() == {"DDP201"}
    assert codes("--select", "DDP1") == {"DDP103"}
    assert codes("--ignore", "DDP201") == set()
