"""pytorch-ignite's idist: auto_model, auto_optim, auto_dataloader and its metrics."""

import ignite.distributed as idist
import torch
from ignite.engine import create_supervised_trainer
from ignite.metrics import MeanSquaredError


def training(local_rank):
    torch.manual_seed(0)
    device = idist.device()
    model = idist.auto_model(torch.nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4) / 64, torch.ones(16, 1))
    loader = idist.auto_dataloader(data, batch_size=8)
    trainer = create_supervised_trainer(
        model,
        optimizer,
        torch.nn.functional.mse_loss,
        device=device,
        output_transform=lambda x, y, prediction, loss: (prediction, y),
    )
    metric = MeanSquaredError(device=device)
    metric.attach(trainer, "mse")
    trainer.run(loader, max_epochs=3)
    if idist.get_rank() == 0:
        print("loss", trainer.state.metrics["mse"])


with idist.Parallel(backend="nccl" if torch.cuda.is_available() else "gloo") as parallel:
    parallel.run(training)
