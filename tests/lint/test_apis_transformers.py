"""transformers and trl: distributed only under a launcher, which is not seen."""

from __future__ import annotations

import pytest


def test_a_trainer_alone_is_no_sure_job(check):
    check(
        """
        from transformers import Trainer, TrainingArguments
        model = nn.Linear(2, 2).cuda()
        Trainer(model, TrainingArguments("out")).train()
        """
    )


@pytest.mark.parametrize(
    "sign",
    [
        "from accelerate import PartialState\nprint(PartialState().num_processes)",
        "from accelerate import PartialState\nPartialState().wait_for_everyone()",
        "print(os.environ.get('LOCAL_RANK', -1))",
        "print(dist.get_rank())",
        "args = TrainingArguments('out', deepspeed='zero2.json')",
        "args = TrainingArguments('out', fsdp='full_shard auto_wrap')",
    ],
)
def test_a_program_shows_that_it_is_meant_for_several_ranks(check, sign):
    check(
        f"""
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out")
{sign}
Trainer(nn.Linear(2, 2).to("cuda:0"), args).train()  # DDP103: error
"""
    )


@pytest.mark.parametrize(
    "sign",
    [
        "print(args.device, args.n_gpu, args.should_save)",
        "print(args.local_rank, args.world_size, args.parallel_mode)",
        "with args.main_process_first():\n    pass",
        "print(Trainer(unknown(), args).is_world_process_zero())",
        "args = TrainingArguments('out', ddp_find_unused_parameters=False, fsdp='')",
        "print(os.environ.get('CUDA_VISIBLE_DEVICES'))",
    ],
)
def test_what_one_process_has_too_shows_nothing(check, sign):
    check(
        f"""
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out")
{sign}
Trainer(nn.Linear(2, 2).to("cuda:0"), args).train()
"""
    )


def test_it_counts_on_the_paths_where_it_is_asked_for(check):
    check(
        """
        from transformers import Trainer, TrainingArguments
        if unknown():
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        else:
            device = torch.device("cuda:0")
        Trainer(nn.Linear(2, 2).to(device), TrainingArguments("out")).train()
        """
    )


def test_a_constant_card_in_a_device_map(check):
    check(
        """
        from transformers import AutoModelForCausalLM
        from trl import SFTConfig, SFTTrainer
        model = AutoModelForCausalLM.from_pretrained("a", device_map={"": 0})  # DDP305: warning
        SFTTrainer(model, args=SFTConfig("out")).train()
        """
    )


def test_without_a_trainer_a_device_map_is_one_process(check):
    check(
        """
        from transformers import AutoModelForCausalLM
        AutoModelForCausalLM.from_pretrained("a", device_map={"": 0})
        AutoModelForCausalLM.from_pretrained("a", device_map="auto")
        """
    )


def test_arguments_bind_and_know_their_device(check):
    check(
        """
        from transformers import HfArgumentParser, TrainingArguments

        @dataclasses.dataclass
        class Data:
            path: str = "data"
            gpu: int = 0  # DDP103

        parser = HfArgumentParser((Data, TrainingArguments))
        data, args = parser.parse_args_into_dataclasses()
        dist.init_process_group("nccl")
        nn.Linear(2, 2).cuda()
        nn.Linear(2, 2).to(args.device)
        nn.Linear(2, 2).to(f"cuda:{args.local_rank}")
        nn.Linear(2, 2).to(f"cuda:{args.process_index}")  # DDP203
        nn.Linear(2, 2).to(data.gpu)
        if args.should_save:
            nn.Linear(2, 2).to("cuda:0")
        """
    )


def test_the_hooks_of_a_trainer_of_the_program_run(check):
    check(
        """
        from transformers import Trainer, TrainingArguments

        class Own(Trainer):
            def compute_loss(self, model, inputs):
                return torch.ones(1, device="cuda:0")  # DDP103

        dist.init_process_group("nccl")
        Own(model=nn.Linear(2, 2), args=TrainingArguments("out")).train()
        """
    )


def test_a_pipeline_on_a_constant_card(check):
    check(
        """
        from transformers import pipeline
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        pipeline("fill-mask", device=0)  # DDP103
        pipeline("fill-mask", device=int(os.environ["LOCAL_RANK"]))
        pipeline("fill-mask")
        """
    )


LOADED = """
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from peft import PeftModel
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


def test_without_a_device_map_a_model_is_on_the_cpu(check):
    check(
        LOADED
        + """
DDP(AutoModel.from_pretrained("a"), device_ids=[local_rank])  # DDP304
model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=torch.half)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.load_state_dict(torch.load("o.pt", map_location="cpu"))  # DDP107
model.gradient_checkpointing_enable()
model.to(local_rank)
DDP(model, device_ids=[local_rank])
"""
    )


@pytest.mark.parametrize(
    "model",
    [
        "AutoModel.from_pretrained('a', device_map={'': local_rank})",
        "AutoModel.from_pretrained('a', quantization_config=BitsAndBytesConfig())",
        "AutoModel.from_pretrained('a', load_in_8bit=True)",
        "AutoModel.from_pretrained('a', **unknown())",
        "PeftModel.from_pretrained(unknown(), 'a')",
        "AutoTokenizer.from_pretrained('a')",
    ],
)
def test_what_may_be_on_the_gpu_already(check, model):
    check(LOADED + f"DDP({model}, device_ids=[local_rank])")


def test_the_weights_of_an_adapter(check):
    check(
        """
        from peft import get_peft_model, set_peft_model_state_dict
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        print(os.environ["LOCAL_RANK"])
        model = get_peft_model(AutoModelForCausalLM.from_pretrained("a"), unknown())
        set_peft_model_state_dict(model, torch.load("adapter_model.bin"))  # DDP104
        set_peft_model_state_dict(model, torch.load("adapter_model.bin", map_location="cpu"))
        Trainer(model, TrainingArguments("out")).train()
        """
    )


def test_the_functions_that_a_trainer_gets_run_on_every_rank(check):
    check(
        """
        from transformers import Trainer
        from trl import GRPOConfig, GRPOTrainer

        class Own(GRPOTrainer):
            pass

        def measure(predictions):
            return torch.ones(2, device="cuda:0").sum()  # DDP103

        def collate(features):
            return torch.ones(2).to("cuda:0")  # DDP103

        def reward(completions, **others):
            return torch.ones(2).cuda(0)  # DDP103

        def unused(completions):
            return torch.ones(2).cuda(0)

        print(os.environ["LOCAL_RANK"])
        Trainer(unknown(), compute_metrics=measure, data_collator=collate).train()
        Own("a", args=GRPOConfig("out"), reward_funcs=["model", reward]).train()
        """
    )


CAPTIONER = """
from transformers import AutoModel, AutoProcessor

class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.processor = AutoProcessor.from_pretrained("a")
        self.backbone = AutoModel.from_pretrained("a")

    def forward(self, texts):
        {body}

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DDP(Captioner().cuda())
model(unknown())
"""


@pytest.mark.parametrize(
    "use", ["self.backbone(**inputs)", 'self.backbone(inputs["input_ids"], None)']
)
def test_a_processor_gives_tensors_on_the_cpu(check, use):
    body = 'inputs = self.processor(texts, return_tensors="pt")  # DDP105\n        return ' + use
    found = check(CAPTIONER.format(body=body))
    assert found["DDP105"].fix is not None


@pytest.mark.parametrize(
    "body",
    [
        'inputs = self.processor(texts, return_tensors="pt").to(self.backbone.device)',
        'inputs = self.processor(texts, return_tensors="pt"); inputs.to("cuda")',
        'inputs = self.processor(texts, return_tensors="pt")\n'
        "        inputs = {name: value.cuda() for name, value in inputs.items()}",
        'inputs = self.processor(texts, return_tensors="pt")\n'
        "        for name in inputs: inputs[name] = inputs[name].cuda()",
        'inputs = self.processor(texts, return_tensors="pt")\n'
        "        for name, value in inputs.items():\n"
        "            if isinstance(value, torch.Tensor): inputs[name] = value.cuda()",
        'inputs = self.processor(texts, return_tensors="np")',
        "inputs = self.processor(texts)",
    ],
)
def test_what_a_processor_gives_can_be_moved(check, body):
    check(CAPTIONER.format(body=body + "\n        return self.backbone(**inputs)"))
