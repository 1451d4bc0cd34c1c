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


MAPPED = 'AutoModelForCausalLM.from_pretrained("gpt2", device_map={})'


@pytest.mark.parametrize(
    "value",
    [
        '"balanced_low_0"',
        '{"model": 0, "lm_head": 1}',
        '{"": 0 if unknown() else 1}',
        '"auto" if unknown() else {"": 0}',
    ],
)
def test_maps_that_fit_no_rank_or_one(check: Check, value: str) -> None:
    check(START + f"{MAPPED.format(value)}  # DDP305\n")


def test_the_default_of_an_option(check: Check) -> None:
    check(
        START
        + f"""
parser = argparse.ArgumentParser()
parser.add_argument("--map", default="auto")  # DDP305
{MAPPED.format("parser.parse_args().map")}
"""
    )


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        '{"": 0, **unknown()}',
        '{"": 0, "lm_head": local_rank}',
        '"auto" if unknown() else {"": local_rank}',
        '"cuda"',
        '"cpu:0"',
        'torch.device("cuda")',
        "parser.parse_args().map",
        "parser.parse_args().card",
    ],
)
def test_maps_that_may_fit_every_rank(check: Check, value: str) -> None:
    check(
        START
        + f"""
parser = argparse.ArgumentParser()
parser.add_argument("--map")
parser.add_argument("--card", default=local_rank)
{MAPPED.format(value)}
"""
    )


@pytest.mark.parametrize(("value", "marker"), [('"auto"', ""), ('{"": 0}', "  # DDP305")])
def test_under_a_launcher_that_is_not_seen(check: Check, value: str, marker: str) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM, Trainer
    model = {MAPPED.format(value)}{marker}
    Trainer(model).train()
    """)


@pytest.mark.parametrize(
    ("asked", "marker"),
    [
        ('int(os.environ.get("WORLD_SIZE", 1)) != 1', "  # DDP305: warning"),
        ('os.getenv("LOCAL_RANK", "0") == "0"', "  # DDP305: warning"),
        ('os.environ.get("CUDA_VISIBLE_DEVICES")', ""),
        ('os.environ.get("MASTER_PORT")', ""),
    ],
)
def test_a_program_that_asks_for_its_rank_is_meant_for_several(
    check: Check, asked: str, marker: str
) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM, Trainer
    several = {asked}
    model = {MAPPED.format('"auto"')}{marker}
    Trainer(model).train()
    """)


def test_a_map_for_each_case(check: Check) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM, Trainer
    where = "auto"
    if int(os.environ.get("WORLD_SIZE", 1)) != 1:
        where = {{"": int(os.environ.get("LOCAL_RANK") or 0)}}
    model = {MAPPED.format("where")}
    Trainer(model).train()
    """)


def test_a_constant_in_one_process(check: Check) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM
    {MAPPED.format('{"": 0}')}
    """)


def test_where_it_takes_effect_is_told_unless_it_is_there(check: Check) -> None:
    lines = ['where = "auto"  # DDP305', MAPPED.format("where")]
    found = check(START + "\n".join(lines))
    assert [r.message for r in found["DDP305"].related] == ["takes effect here"]
    assert found["DDP305"].behaviour == "every rank loads over the same GPUs"
    found = check(START + MAPPED.format('{"": len("")}') + "  # DDP305")
    assert found["DDP305"].related == ()
    assert found["DDP305"].behaviour == "every rank loads on the same GPU"


def test_it_is_reported_at_the_number_in_a_map(check: Check) -> None:
    check(
        START
        + """
where = {
    "": 0,  # DDP305
}
AutoModelForCausalLM.from_pretrained("gpt2", device_map=where)
"""
    )


@pytest.mark.parametrize("value", ['"cuda"', '{"": "cuda"}', 'torch.device("cuda")'])
def test_the_current_device_is_the_first_until_one_is_chosen(check: Check, value: str) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM
    dist.init_process_group("nccl")
    {MAPPED.format(value)}  # DDP305
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    {MAPPED.format(value)}
    """)


CURRENT = ['"cuda"', '{"": torch.cuda.current_device()}', 'f"cuda:{torch.cuda.current_device()}"']


@pytest.mark.parametrize("value", CURRENT)
def test_in_one_process_the_current_device_is_right(check: Check, value: str) -> None:
    program = f"""
    from transformers import AutoModelForCausalLM, Trainer
    model = {MAPPED.format(value)}  # expected
    Trainer(model).train()
    """
    check(program)
    several = {"run.sh": "torchrun --nproc_per_node 4 train.py"}
    check(program.replace("# expected", "# DDP305"), several)


@pytest.mark.parametrize(
    ("arguments", "marker"),
    [
        ("load_in_8bit=True", "  # DDP305"),
        ("load_in_4bit=True, device_map=None", "  # DDP305"),
        ("quantization_config=BitsAndBytesConfig(load_in_4bit=True)", "  # DDP305"),
        ("quantization_config=BitsAndBytesConfig(), device_map={'': local_rank}", ""),
        ("quantization_config=unknown()", ""),
        ("load_in_8bit=False", ""),
        ("device_map=None", ""),
    ],
)
def test_a_quantized_model_without_a_map_goes_to_the_current_device(
    check: Check, arguments: str, marker: str
) -> None:
    check(f"""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
    local_rank = int(os.environ["LOCAL_RANK"])
    model = AutoModelForCausalLM.from_pretrained("gpt2", {arguments}){marker}
    args = TrainingArguments("out")
    other = AutoModelForCausalLM.from_pretrained("gpt2", {arguments})
    Trainer(model, args).train()
    """)
