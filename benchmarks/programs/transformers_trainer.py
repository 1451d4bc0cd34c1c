"""transformers' Trainer on a tiny GPT-2 with random weights."""

import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

options = dict.fromkeys(sys.argv[1:], True)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(0, 100, (12,), generator=generator)
        return {"input_ids": ids, "labels": ids}


set_seed(0)
config = GPT2Config(
    vocab_size=100,
    n_positions=16,
    n_embd=16,
    n_layer=2,
    n_head=2,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            folder,
            max_steps=6,
            per_device_train_batch_size=2,
            learning_rate=1e-2,
            report_to="none",
            disable_tqdm=True,
            save_strategy="steps",
            save_steps=3,
            logging_steps=6,
            use_cpu=not torch.cuda.is_available(),
            **options,
        ),
        train_dataset=Data(),
    )
    result = trainer.train()
if int(os.environ["RANK"]) == 0:
    print("loss", result.training_loss)
