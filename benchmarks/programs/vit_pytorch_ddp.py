"""vit-pytorch's ViT and x-transformers' decoder under DistributedDataParallel."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
cuda = torch.cuda.is_available()
if cuda:
    torch.cuda.set_device(rank)
device = torch.device("cuda" if cuda else "cpu")
dist.init_process_group("nccl" if cuda else "gloo")
torch.manual_seed(0)
if sys.argv[1] == "vit":
    from vit_pytorch import ViT

    model = ViT(image_size=16, patch_size=8, num_classes=4, dim=16, depth=2, heads=2, mlp_dim=16)
else:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    model = AutoregressiveWrapper(
        TransformerWrapper(
            num_tokens=20,
            max_seq_len=16,
            attn_layers=Decoder(dim=16, depth=2, heads=2, rotary_pos_emb=True),
        )
    )
model = DistributedDataParallel(model.to(device), find_unused_parameters=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    generator = torch.Generator().manual_seed(10 * rank + step)
    if sys.argv[1] == "vit":
        output = model(torch.randn(2, 3, 16, 16, generator=generator).to(device))
        loss = torch.nn.functional.cross_entropy(output, torch.tensor([0, 1], device=device))
    else:
        loss = model(torch.randint(0, 20, (2, 16), generator=generator).to(device))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
if rank == 0:
    print("loss", loss.item())
dist.destroy_process_group()
