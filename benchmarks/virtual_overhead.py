"""What virtual GPUs cost: the same training step on the plain CPU and on a virtual GPU, in turns.

Three figures a model, each the median of many steps taken in alternating blocks of one run: the
plain CPU, a Python dispatch mode that does nothing (the floor of any tool that watches every
operation from Python), and virtual GPUs. Then the start-up beyond `import torch`, as the fastest of
several processes. All in processor time, so that other work on the machine stays out.

    OMP_NUM_THREADS=1 python benchmarks/virtual_overhead.py [--rounds N]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ddpdoctor.virtual import environment, gpus


class Idle(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


SITUATIONS: dict[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "plain": ("cpu", contextlib.nullcontext),
    "idle mode": ("cpu", Idle),
    "virtual": ("cuda", lambda: gpus(1)),
}

# name -> (layers, width, batch, length)
MODELS = {"large operations (~100 ms)": (4, 256, 8, 32), "tiny operations (~6 ms)": (4, 128, 2, 16)}


def block(shape: tuple[int, int, int, int], device: str, steps: int) -> list[float]:
    """Seconds of each training step of a transformer encoder."""
    layers, width, batch, length = shape
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    x = torch.randn(batch, length, width).to(device)
    times = []
    for _ in range(steps + 2):
        start = time.thread_time()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.thread_time() - start)
    return times[2:]


def steps(rounds: int) -> None:
    for name, shape in MODELS.items():
        length = 6 if "large" in name else 30
        times: dict[str, list[float]] = {situation: [] for situation in SITUATIONS}
        for _ in range(rounds):
            for situation, (device, context) in SITUATIONS.items():
                with context():
                    times[situation] += block(shape, device, length)
        # On a busy machine the lower quartile is closer to the truth than the median.
        typical = {key: statistics.quantiles(value, n=4)[0] for key, value in times.items()}
        figures = ", ".join(
            f"{key} {value * 1000:.2f} ms ({value / typical['plain']:.2f}x)"
            for key, value in typical.items()
        )
        print(f"{name}: {figures}")


def start_up(rounds: int) -> None:
    """What happens right after `import torch` in a process of a virtual run."""
    code = (
        "import time, torch; from ddpdoctor.virtual.started import after_torch; "
        "start = time.process_time(); after_torch(); print(time.process_time() - start)"
    )
    environ = {name: value for name, value in environment(8).items() if name != "PYTHONPATH"}
    results = [
        float(subprocess.check_output([sys.executable, "-c", code], env=environ, timeout=120))
        for _ in range(rounds)
    ]
    print(f"start-up: {min(results) * 1000:.0f} ms beyond importing torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steps(options.rounds)
    start_up(options.rounds)


if __name__ == "__main__":
    main()
