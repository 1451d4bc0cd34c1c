"""What the probe's agent costs a training step: the same program with and without it, by turns.

    python benchmarks/agent_overhead.py

CPU time of the main thread a step, the best of several runs each, so that other load on the
machine counts little. The program is DDP over gloo with one rank: a 4-layer encoder, and a tiny
network whose steps consist of overhead alone. No virtual GPUs: they have a cost of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ddpdoctor.probe.folder import ENVIRONMENT
from ddpdoctor.virtual import environment

_ROUNDS = 5
_LIMIT = 1.15

_PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
if sys.argv[1] == "encoder":
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    net, data = nn.TransformerEncoder(layer, 4), torch.randn(240, 16, 128)
    batch, warm = 2, 20
else:
    net, data, batch, warm = nn.Linear(8, 8), torch.randn(4000, 8), 2, 200
ddp = DistributedDataParallel(net)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(TensorDataset(data), batch_size=batch)
steps = 0
for (x,) in loader:
    if steps == warm:
        start = time.thread_time()
    loss = ddp(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    total = torch.ones(1)
    dist.all_reduce(total)
    optimizer.step()
    steps += 1
print((time.thread_time() - start) / (steps - warm))
"""


def _step_seconds(kind: str, agent: bool, folder: str) -> float:
    hooks = ("ddpdoctor.probe.agent:install",) if agent else ()
    variables = environment(0, hooks=hooks, base={**os.environ, ENVIRONMENT: folder})
    command = [sys.executable, "-c", _PROGRAM, kind]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return float(ended.stdout)


def main() -> None:
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("encoder", "tiny"):
            times = [
                (_step_seconds(kind, False, folder), _step_seconds(kind, True, folder))
                for _ in range(_ROUNDS)
            ]
            plain, traced = (min(column) for column in zip(*times, strict=True))
            print(
                f"{kind:8} {plain * 1e3:.3f} ms a step plain, {traced * 1e3:.3f} ms with the "
                f"agent: {traced / plain:.3f}x"
            )
            if kind == "encoder":
                worst = traced / plain
    if worst > _LIMIT:
        sys.exit(f"more than {_LIMIT}x on the encoder")


if __name__ == "__main__":
    main()
