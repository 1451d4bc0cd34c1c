"""Bad input gets one clear line and exit code 2; nothing is started for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ddpdoctor.cli import cli
from ddpdoctor.findings import DdpdoctorError


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nproc", "0", "x.py"], "--nproc 0: a job has at least one rank"),
        (["--nproc", "-3"], "--nproc -3: a job has at least one rank"),
        (["--timeout", "0", "x.py"], "--timeout 0: give a number of seconds above 0"),
        (["--virtual", "missing.py"], "missing.py does not exist"),
        (["--virtual", "."], ". is a folder; give the script that starts the training"),
        (["--virtual", "no-such-program"], "no program of that name is on PATH"),
        (["--virtual", "--nnodes", "2", __file__], "several nodes need --rdzv-endpoint HOST:PORT"),
        (
            ["--virtual", "--report", "missing/page.html", __file__],
            "--report missing/page.html: the folder missing does not exist",
        ),
        (["--virtual", "--corrected"], "--corrected takes a script, and runs it on one node"),
        (
            ["--virtual", "--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "a:1", __file__],
            "--node-rank 2: with --nnodes 2 it is 0 to 1",
        ),
        (
            ["--virtual", "--nnodes", "2", "--rdzv-endpoint", "a:1"],
            "the reference job runs on one node; give a script with --nnodes",
        ),
        (
            [
                *("--virtual", "--launcher", "none", "--nnodes", "2"),
                "--rdzv-endpoint",
                "a:1",
                __file__,
            ],
            "--nnodes goes with torchrun; this program starts its ranks itself",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = CliRunner().invoke(cli, ["probe", *arguments])
    assert isinstance(result.exception, DdpdoctorError)
    assert text in str(result.exception)
    assert "\n" not in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_no_virtual_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpdoctor.gpus.nvml_binding._binding", lambda: _NoDriver)
    result = CliRunner().invoke(cli, ["probe", "--no-virtual", __file__])
    assert "without --no-virtual it runs on virtual GPUs" in str(result.exception)


class _NoDriver:
    """pynvml on a machine whose driver has no GPU."""

    class NVMLError(Exception):
        pass

    nvmlInit = nvmlShutdown = staticmethod(lambda: None)
    nvmlDeviceGetCount = staticmethod(lambda: 0)
