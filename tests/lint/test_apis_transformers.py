"""transformers and trl: distributed only under a launcher, which is not seen."""

from __future__ import annotations


def test_a_trainer_alone_is_no_sure_job(check):
    check(
        """
        from transformers import Trainer, TrainingArguments
        model = nn.Linear(2, 2).cuda()
        Trainer(model, TrainingArguments("out")).train()
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
