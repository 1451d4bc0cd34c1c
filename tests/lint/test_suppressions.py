"""Comments that suppress findings, and text that only looks like one."""

from __future__ import annotations

import pytest

from ddpdoctor.lint import lint

GROUP = """\
import os, torch
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
"""


def codes(tmp_path, line: str) -> list[str]:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a.py").write_text(GROUP + line + "\n")
    return [finding.code for finding in lint([tmp_path / "a.py"]).findings]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: DDP103",
        "#noqa:DDP103",
        "# NOQA: E501, DDP103",
        "# the host's only card  # noqa: E501 DDP103",
        "# noqa: DDP1",
        "# ddpdoctor: ignore",
        "# ddpdoctor: ignore[DDP103]",
        "# ddpdoctor: ignore[DDP101, DDP103]",
    ],
)
def test_suppressed(tmp_path, comment):
    assert codes(tmp_path, f'torch.ones(1, device="cuda:0")  {comment}') == []


@pytest.mark.parametrize(
    "line",
    [
        'torch.ones(1, device="cuda:0")',
        'torch.ones(1, device="cuda:0")  # noqa: DDP101',
        'torch.ones(1, device="cuda:0")  # noqa: E501',
        'torch.ones(1, device="cuda:0")  # ddpdoctor: ignore[DDP101]',
        'torch.ones(1, device="cuda:0"), "# noqa"',
        'torch.ones(1, device="cuda:0"), "# ddpdoctor: ignore"',
        '# noqa: DDP103\ntorch.ones(1, device="cuda:0")',
        'torch.ones(1, device="cuda:0")\n# noqa: DDP103',
    ],
)
def test_not_suppressed(tmp_path, line):
    assert codes(tmp_path, line) == ["DDP103"]


def test_inside_brackets(tmp_path):
    call = 'torch.ones(\n    1,\n    device="cuda:0",  # noqa: DDP103\n)'
    assert codes(tmp_path, call) == []
