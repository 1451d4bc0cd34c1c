"""accelerate's Accelerator with gradient accumulation, saving and loading its state."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=not torch.cuda.is_available())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.utils.data.TensorDataset(torch.arange(128.0).view(32, 4) / 128, torch.ones(32, 1))
loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    if accelerator.num_processes > 1:
        accelerator.wait_for_everyone()
folder = tempfile.mkdtemp() if accelerator.is_main_process else ""
from accelerate.utils import broadcast_object_list  # noqa: E402

folder = broadcast_object_list([folder])[0]
accelerator.save_state(folder)
accelerator.wait_for_everyone()
accelerator.load_state(folder)
losses = accelerator.gather(loss.detach().reshape(1))
accelerator.print("loss", losses.mean().item())
accelerator.end_training()
