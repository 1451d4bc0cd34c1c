"""On real GPUs a mismatch is read from its exception: names, module, operation and lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.probe.agent import mismatches
from ddpdoctor.probe.agent.failures import record_failure
from ddpdoctor.probe.agent.user_code import assigned_before
from ddpdoctor.probe.records import Record, Recorder, read_records
from ddpdoctor.virtual.user_files import is_user_file

# As torch 2.13 words it on CUDA.
_CUDA = (
    "Expected all tensors to be on the same device, but got mat1 is on cuda:0, different from "
    "other tensors on cuda:1 (when checking argument in method wrapper_CUDA_addmm)"
)


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x / 2
        raise RuntimeError(_CUDA)
        return half


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Identity(), _Layer())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


def _train() -> None:
    batch = torch.ones(4, 2)
    _Net()(batch)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    monkeypatch.setattr(mismatches, "_seen", [])
    with pytest.raises(RuntimeError) as raised:
        _train()
    record_failure(Recorder(str(tmp_path)), raised.value)
    return read_records(tmp_path)


def _row(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(row for row, line in enumerate(lines, 1) if line.strip() == text)


def test_operation_module_and_line_come_from_the_exception(records: list[Record]) -> None:
    found, _ = records
    assert found.kind == "mismatch"
    assert found.facts["operation"] == "addmm"
    assert found.facts["module"] == "layers.1"
    assert found.facts["place"]["filename"] == __file__
    assert found.facts["place"]["row"] == _row("raise RuntimeError(_CUDA)")


def test_tensors_have_the_names_that_the_program_gives_them(records: list[Record]) -> None:
    seen = {one["name"]: one for one in records[0].facts["tensors"]}
    assert {name: (one["kind"], one["shape"]) for name, one in seen.items()} == {
        "x": ("variable", [4, 2]),
        "half": ("variable", [4, 2]),
        "layers.1.weight": ("parameter", [2, 3]),
        "layers.1.scale": ("buffer", [1]),
    }
    assert seen["half"]["made"]["row"] == _row("half = x / 2")


def test_an_argument_was_made_where_the_caller_made_it(records: list[Record]) -> None:
    (x,) = (one for one in records[0].facts["tensors"] if one["name"] == "x")
    assert x["made"]["row"] == _row("batch = torch.ones(4, 2)")


def test_the_exception_itself_is_recorded_with_its_line(records: list[Record]) -> None:
    _, found = records
    assert found.kind == "exception"
    assert (found.facts["type"], found.facts["text"]) == ("RuntimeError", _CUDA)
    assert found.facts["place"]["row"] == _row("raise RuntimeError(_CUDA)")


def test_other_exceptions_are_no_mismatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mismatches, "_seen", [])
    record_failure(
        Recorder(str(tmp_path)), RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    )
    assert [one.kind for one in read_records(tmp_path)] == ["exception"]


def test_a_stop_that_was_asked_for_is_no_failure(tmp_path: Path) -> None:
    record_failure(Recorder(str(tmp_path)), KeyboardInterrupt())
    record_failure(Recorder(str(tmp_path)), SystemExit(3))
    assert read_records(tmp_path) == []


def test_libraries_and_python_are_not_the_users_program() -> None:
    assert is_user_file(__file__)
    assert not is_user_file(nn.__file__)
    assert not is_user_file(pytest.__file__)
    assert not is_user_file("<string>")
    assert not is_user_file(mismatches.__file__)
    assert not is_user_file(os.path.relpath(mismatches.__file__))


def test_a_name_that_the_function_never_assigns_has_no_line() -> None:
    assert assigned_before(_train.__code__, "other", 10_000) is None
