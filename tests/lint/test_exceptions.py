"""try: the body is taken to succeed, unless it certainly raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_a_handler_of_what_does_not_fail_is_not_run(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    try:
        torch.ones(1, device=1)  # DDP103
    except RuntimeError:
        torch.ones(1, device=2)
    else:
        torch.ones(1, device=3)  # DDP103
    finally:
        torch.ones(1, device=4)  # DDP103
    """)


def test_a_body_that_raises_runs_its_handler(check: Check) -> None:
    check("""
    def fail():
        raise ValueError("no")

    dist.init_process_group("nccl")
    try:
        fail()
        torch.ones(1, device=1)
    except ValueError as error:
        torch.ones(1, device=2)  # DDP103
    """)


def test_an_exit_passes_by_handlers_but_not_by_finally(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    try:
        sys.exit(1)
    except Exception:
        torch.ones(1, device=1)
    finally:
        torch.ones(1, device=2)  # DDP103
    torch.ones(1, device=3)
    """)


def test_a_return_in_try_still_runs_finally(check: Check) -> None:
    check("""
    def pick():
        try:
            return 1  # DDP103
        finally:
            torch.ones(1, device=2)  # DDP103
        return 3

    dist.init_process_group("nccl")
    torch.ones(1, device=pick())
    """)


def test_a_raise_on_one_path_leaves_the_other(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="nccl")
    args = parser.parse_args()
    if args.backend not in ("nccl", "gloo"):
        raise ValueError
    if args.backend == "gloo":
        raise NotImplementedError
    dist.init_process_group(args.backend)
    torch.ones(1, device=2)  # DDP103
    """)


def test_groups_of_exceptions(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    try:
        torch.ones(1, device=1)  # DDP103
    except* ValueError:
        torch.ones(1, device=2)
    """)
