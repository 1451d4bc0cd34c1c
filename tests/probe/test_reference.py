"""`ddpdoctor probe` alone: the article's job misplaced, then corrected, with both placements."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ended(
    probe_command: Callable[..., subprocess.CompletedProcess[str]],
) -> subprocess.CompletedProcess[str]:
    return probe_command("--virtual", "--nproc", "2", "--output-format", "json")


@pytest.fixture(scope="module")
def report(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(ended.stdout)
    return value


def test_the_misplaced_run_has_every_process_on_gpu_0(report: dict[str, Any]) -> None:
    first, second = report["runs"]["misplaced"]["gpus"]
    assert (first["index"], second["index"]) == (0, 1)
    assert [one["rank"] for one in first["processes"]] == [0, 1]
    assert all(one["bytes"] > 0 for one in first["processes"])
    assert second["processes"] == []
    pids = [one["pid"] for one in report["runs"]["misplaced"]["ranks"]]
    assert [one["pid"] for one in first["processes"]] == pids


def test_the_misplaced_run_is_explained_by_the_rule_for_its_line(report: dict[str, Any]) -> None:
    found = {one["code"]: one for one in report["runs"]["misplaced"]["findings"]}
    assert "DDP501" in found
    assert found["DDP101"]["filename"].endswith("1-first-written/main.py")
    assert found["DDP101"]["ranks"] == [1]


def test_the_corrected_run_has_one_rank_a_gpu_and_trains_to_its_end(
    report: dict[str, Any],
) -> None:
    run = report["runs"]["corrected"]
    assert [[one["rank"] for one in gpu["processes"]] for gpu in run["gpus"]] == [[0], [1]]
    assert [one["devices"] for one in run["ranks"]] == [[0], [1]]
    assert run["findings"] == []
    assert run["outcome"] == "completed"
    assert all(one["outcome"] == "completed" for one in run["progress"])
    assert all(one["steps"] > 100 and one["loss"] < 1 for one in run["progress"])
    said = "\n".join(run["output"])
    assert "resumed from" in said
    assert "accuracy" in said
    assert "parameters equal on 2 of 2 ranks" in said


def test_the_object_itself_is_the_first_run(
    ended: subprocess.CompletedProcess[str], report: dict[str, Any]
) -> None:
    first = report["runs"]["misplaced"]
    assert report["schema"] == 1
    assert {name: report[name] for name in ("ranks", "gpus", "findings")} == {
        name: first[name] for name in ("ranks", "gpus", "findings")
    }
    assert ended.returncode == 1
    assert ended.stderr == ""
