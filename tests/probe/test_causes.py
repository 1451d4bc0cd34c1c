"""What was seen becomes findings: one cause, one finding, under the rule that explains it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddpdoctor.findings import Finding, Location, Related, Severity
from ddpdoctor.gpus.placement import GpuRow, Occupant, Placement, RankRow
from ddpdoctor.probe.causes import findings_of
from ddpdoctor.probe.explain import explain_with_lint, explanation
from ddpdoctor.probe.failures import RankEnd
from ddpdoctor.probe.nccl import says_same_gpu
from ddpdoctor.probe.records import Record
from ddpdoctor.probe.results import Mismatch, Opening, Place, TensorSeen

_RULE = Finding(
    "DDP101",
    "bare",
    Severity.ERROR,
    filename="/p/net.py",
    location=Location(7, 9),
    end_location=Location(8, 2),
    related=(Related("/p/main.py", Location(30, 1), "takes effect"),),
)
_OLD = "Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 4000"
_NEW = "Multiple Ranks are using the same GPU/Partition. Set NCCL_ALLOW to allow this."


def _found(*seen: Any) -> list[Finding]:
    """findings_of, with lint's findings as the last argument."""
    return findings_of(*seen[:-1], lambda: seen[-1])


def _placement(*homes: int) -> Placement:
    """Rank i holds memory on GPU homes[i], and GPU i is its own."""
    gpus = tuple(
        GpuRow(
            index,
            f"GPU-{index}",
            "H100",
            None,
            tuple(
                Occupant(100 + rank, rank, 1 << 20, ((0.0, 1 << 20),))
                for rank, home in enumerate(homes)
                if home == index
            ),
        )
        for index in range(len(homes))
    )
    ranks = tuple(
        RankRow(rank, rank, 100 + rank, rank, (home,), tuple(gpu.uuid for gpu in gpus))
        for rank, home in enumerate(homes)
    )
    return Placement(ranks, gpus, (), False)


def _opening(rank: int, device: int, place: Place | None) -> Opening:
    return Opening(rank, 100 + rank, device, 1.0, place, wrong=rank != device)


def _mismatch(place: Place, made: Place | None = None, silent: bool = False) -> Mismatch:
    tensors = (
        TensorSeen("x", "variable", (2,), "float32", "cuda:0", made),
        TensorSeen("linear.weight", "parameter", (2, 2), "float32", "cuda:1"),
    )
    return Mismatch(1, "addmm", tensors, "linear", place, "Expected all tensors …", silent)


def test_a_line_that_no_rule_explains_is_related_to_the_gpu_that_ranks_share() -> None:
    place = Place("/p/main.py", 3, "x.cuda()")
    found = _found(_placement(0, 2, 2), [_opening(1, 2, place)], [], [], [], [])
    assert [one.code for one in found] == ["DDP501"]
    assert [(one.filename, one.location.row) for one in found[0].related] == [("/p/main.py", 3)]


def test_a_line_that_leaves_memory_on_a_strange_gpu_is_ddp502_there() -> None:
    place = Place("/p/main.py", 3, "x.cuda()")
    (found,) = _found(_placement(0, 1), [_opening(1, 0, place)], [], [], [], [_RULE])
    assert (found.code, found.ranks) == ("DDP502", (1,))
    assert (found.filename, found.location) == ("/p/main.py", Location(3, 1))


def test_the_rule_that_explains_the_line_gives_code_place_and_repair() -> None:
    place = Place("/p/net.py", 8)
    found = _found(_placement(0, 0), [_opening(1, 0, place)], [], [], [], [_RULE])
    assert [one.code for one in found] == ["DDP501", "DDP101"]
    assert (found[1].location, found[1].ranks) == (_RULE.location, (1,))
    assert "Rank 1 opened GPU 0, which is not its own" in found[1].behaviour


def test_opening_and_mismatch_of_one_cause_are_one_finding() -> None:
    made = Place("/p/net.py", 7)
    found = _found(
        _placement(0, 1),
        [_opening(1, 0, made)],
        [_mismatch(Place("/p/net.py", 20), made)],
        [],
        [],
        [_RULE],
    )
    assert [one.code for one in found] == ["DDP101"]
    assert ("/p/net.py", 20) in [(one.filename, one.location.row) for one in found[0].related]


def test_a_mismatch_without_a_rule_names_every_tensor_and_its_device() -> None:
    (found,) = _found(_placement(0, 1), [], [_mismatch(Place("/p/a.py", 5))], [], [], [_RULE])
    assert found.code == "DDP503"
    assert found.message == (
        "addmm got tensors on different devices: x on cuda:0; linear.weight on cuda:1."
    )
    assert found.location == Location(5, 1)


def test_a_silent_misplacement_is_a_warning() -> None:
    (found,) = _found(
        _placement(0, 1), [], [_mismatch(Place("/p/a.py", 5), silent=True)], [], [], []
    )
    assert (found.code, found.severity) == ("DDP503", Severity.WARNING)


def test_a_context_that_no_line_of_the_program_opened_is_a_librarys() -> None:
    found = _found(_placement(0, 1), [_opening(1, 0, None)], [], [], [], [])
    assert [(one.code, one.ranks) for one in found] == [("DDP507", (1,))]


@pytest.mark.parametrize(("text", "ranks"), [(_OLD, (0, 2)), (_NEW, ())])
def test_both_of_nccls_texts_are_explained_where_no_memory_was_seen(
    text: str, ranks: tuple[int, ...]
) -> None:
    (found,) = _found(Placement((), (), (), False), [], [], [text], [], [])
    assert (found.code, found.ranks) == ("DDP501", ranks)
    assert "only hides this" in found.repair


def test_other_errors_of_nccl_are_not_taken_for_it() -> None:
    assert not says_same_gpu("ncclSystemError: connection refused")


def test_a_line_that_raised_gets_its_rule_and_the_exceptions_text() -> None:
    facts = {"type": "RuntimeError", "text": "boom", "place": {"filename": "/p/net.py", "row": 7}}
    end = RankEnd(3, 3, 103, 2.0, 1, Record(103, "exception", 2.0, facts), consequence=False)
    (found,) = _found(_placement(0, 1), [], [], [], [end], [_RULE])
    assert (found.code, found.ranks) == ("DDP101", (3,))
    assert found.behaviour == "Rank 3 failed here: RuntimeError: boom."


def test_a_finding_on_the_line_wins_over_one_that_takes_effect_there() -> None:
    other = replace(_RULE, code="DDP303", filename="/p/main.py", location=Location(30, 1))
    other = replace(other, end_location=None)
    assert explanation(lambda: [_RULE, other], [Place("/p/main.py", 30)]) is other
    assert explanation(lambda: [_RULE], [None, Place("/p/main.py", 30)]) is _RULE
    assert explanation(lambda: [_RULE], [Place("/p/main.py", 31)]) is None


def test_lint_is_not_asked_where_there_is_no_line_to_explain() -> None:
    def slow() -> list[Finding]:
        raise AssertionError("asked")

    assert explanation(slow, [None]) is None
    assert findings_of(_placement(0, 1), [], [], [], [], slow) == []


def test_a_program_that_lint_cannot_read_is_not_explained_and_says_why(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    found, problem = explain_with_lint(script)
    assert found == ()
    assert "no rule of lint explains what was seen" in problem


def test_a_bug_in_lint_does_not_lose_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("bug")

    monkeypatch.setattr("ddpdoctor.lint.lint", fails)
    assert explain_with_lint(tmp_path / "x.py") == (
        (),
        "lint failed on this program (ZeroDivisionError: bug)",
    )
