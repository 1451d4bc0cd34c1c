"""Lightning's Trainer fits its own demonstration transformer with strategy "ddp"."""

import sys

import lightning.pytorch as lightning
import torch
from lightning.pytorch.demos import Transformer

precision = sys.argv[1] if len(sys.argv) > 1 else "32-true"


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        text = torch.randint(0, 50, (17,), generator=generator)
        return text[:-1], text[1:]


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(50, ninp=16, nhead=2, nhid=16, nlayers=1, dropout=0.0)

    def training_step(self, batch, _):
        inputs, targets = batch
        loss = torch.nn.functional.nll_loss(self.model(inputs, targets), targets.view(-1))
        self.last = loss.detach()
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


lightning.seed_everything(0)
model = Model()
trainer = lightning.Trainer(
    strategy="ddp",
    devices=4,
    accelerator="gpu" if torch.cuda.is_available() else "cpu",
    precision=precision,
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(model, torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1))
if trainer.is_global_zero:
    print("loss", model.last.item())
