"""Pids of one process in several pid namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ddpdoctor.gpus.pids import match, neighbours, nspids
from ddpdoctor.gpus.placement import RankProcess

# Above what Linux gives out (pid_max is at most 4194304).
NOBODY = 5_000_000


def test_a_process_of_this_namespace_has_its_own_pid_last():
    assert nspids()[-1] == os.getpid()
    assert nspids(os.getpid()) == nspids()


def test_an_ended_process_has_none():
    assert nspids(NOBODY) == ()


def test_a_process_in_a_namespace_of_its_own_shows_both_pids():
    unshare = shutil.which("unshare")
    command = [unshare or "", "--pid", "--fork", sys.executable, "-c"]
    probe = [*command, "from ddpdoctor.gpus.pids import nspids; print(*nspids())"]
    if not unshare or subprocess.run([*command, ""], capture_output=True, timeout=60).returncode:
        pytest.skip("no right to make a pid namespace")
    outer, inner = subprocess.check_output(probe, text=True, timeout=60).split()
    assert inner == "1"
    assert int(outer) > 1


def test_the_drivers_pids_are_the_hosts():
    ranks = [RankProcess(rank, rank, 12 + rank, (9000 + rank, 12 + rank)) for rank in range(2)]
    # The host has a process 12 of its own, which is no rank.
    assert match([9000, 9001, 12], ranks) == {9000: ranks[0], 9001: ranks[1]}


def test_the_drivers_pids_are_the_containers():
    ranks = [RankProcess(rank, rank, 12 + rank, (9000 + rank, 12 + rank)) for rank in range(2)]
    assert match([12, 13, 400], ranks) == {12: ranks[0], 13: ranks[1]}


def test_a_rank_that_reports_no_namespaces_is_known_by_its_pid():
    rank = RankProcess(0, 0, 12)
    assert match([12], [rank]) == {12: rank}


def test_nothing_matches():
    assert match([9000], [RankProcess(0, 0, 12, (12,))]) == {}
    assert match([9000], []) == {}


def test_a_neighbour_is_named_and_a_stranger_is_not_there():
    notes = neighbours([os.getpid(), NOBODY])
    assert set(notes) == {os.getpid()}
    assert " of user " in notes[os.getpid()]
