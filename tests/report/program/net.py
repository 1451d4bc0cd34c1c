import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, device="cuda:0"):
        super().__init__()
        self.layer = nn.Linear(width, 10, device=device)

    def forward(self, x):
        return self.layer(torch.from_numpy(x).float().cuda())
