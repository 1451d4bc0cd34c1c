"""DDP305: device_map over all GPUs, or on a constant one, in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
from transformers import AutoModelForCausalLM
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"auto"', "over all GPUs"),
        ('"balanced"', "over all GPUs"),
        ('"sequential"', "over all GPUs"),
        ('{"": 0}', "one and the same GPU"),
        ('{"": "cuda:0"}', "one and the same GPU"),
        ('"cuda:0"', "one and the same GPU"),
    ],
)
def test_a_map_that_is_wrong_in_several_processes(check: Check, value: str, text: str) -> None:
    found = check(
        START
        + f"""
AutoModelForCausalLM.from_pretrained("gpt2", device_map={value})  # DDP305: warning
"""
    )
    assert text in found["DDP305"].message


def test_it_is_reported_where_the_map_is_written(check: Check) -> None:
    check(
        START
        + """
options = dict(
    torch_dtype=torch.half,
    device_map="auto",  # DDP305
)
AutoModelForCausalLM.from_pretrained("gpt2", **options)
"""
    )


@pytest.mark.parametrize(
    "value",
    [
        '{"": local_rank}',
        '{"": torch.cuda.current_device()}',
        'f"cuda:{local_rank}"',
        "None",
        '"cpu"',
        '{"": "cpu"}',
        "unknown()",
        '{"": local_rank} if dist.get_world_size() > 1 else "auto"',
    ],
)
def test_a_map_of_its_own_for_each_process(check: Check, value: str) -> None:
    check(START + f'AutoModelForCausalLM.from_pretrained("gpt2", device_map={value})\n')


def test_in_one_process_auto_is_what_it_is_for(check: Check) -> None:
    check("""
    from transformers import AutoModelForCausalLM
    AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
    """)
