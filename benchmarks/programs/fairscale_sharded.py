"""fairscale's sharded optimizer and ShardedDataParallel."""

import os

import torch
import torch.distributed as dist
from fairscale.nn.data_parallel import ShardedDataParallel
from fairscale.optim.oss import OSS

rank = int(os.environ["LOCAL_RANK"])
cuda = torch.cuda.is_available()
if cuda:
    torch.cuda.set_device(rank)
device = torch.device("cuda" if cuda else "cpu")
dist.init_process_group("nccl" if cuda else "gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(
    device
)
optimizer = OSS(params=model.parameters(), optim=torch.optim.SGD, lr=0.1, momentum=0.9)
model = ShardedDataParallel(model, optimizer)
for step in range(4):
    generator = torch.Generator().manual_seed(10 * rank + step)
    loss = model(torch.randn(4, 8, generator=generator).to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0:
    print("loss", loss.item())
dist.destroy_process_group()
