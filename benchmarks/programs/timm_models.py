"""timm's model, mixup, scheduler and optimizer in a DistributedDataParallel loop."""

import os

import timm
import torch
import torch.distributed as dist
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2, distribute_bn, reduce_tensor

rank = int(os.environ["LOCAL_RANK"])
if torch.cuda.is_available():
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl")
else:
    device = torch.device("cpu")
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=5).to(device)
average = ModelEmaV2(model)
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = create_optimizer_v2(model, "adamw", lr=1e-3)
scheduler = CosineLRScheduler(optimizer, t_initial=4)
criterion = LabelSmoothingCrossEntropy().to(device)
for step in range(4):
    generator = torch.Generator().manual_seed(10 * rank + step)
    images = torch.randn(2, 3, 32, 32, generator=generator).to(device, non_blocking=True)
    targets = torch.randint(0, 5, (2,), generator=generator).to(device)
    loss = criterion(model(images), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(step)
    average.update(model.module)
distribute_bn(model.module, dist.get_world_size(), reduce=True)
loss = reduce_tensor(loss.detach(), dist.get_world_size())
if rank == 0:
    print("loss", loss.item())
dist.destroy_process_group()
