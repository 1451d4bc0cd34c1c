"""How often virtual GPUs and PyTorch's FakeTensor agree on which mixes of devices an operation
takes.

For every operation of torch's own test database, some of its sample inputs are spread over devices
in turn: each tensor once on the CPU and once on a second GPU, the others on cuda:0. FakeTensor,
which knows CUDA's rules without a GPU, says whether the call is refused and on which devices its
results are; virtual GPUs must say the same. Where FakeTensor has no opinion (data-dependent shapes,
operations that it does not know), the case is left out. Needs numpy and expecttest.

    python benchmarks/virtual_oracle.py [--every N] [--samples N] [--json FILE] [--show]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

import ddpdoctor.virtual

Decision = str | tuple[str, ...]
REFUSED = "refused"

# Refusals that CUDA makes and FakeTensor does not: a kernel's generated device check, which takes
# no CPU scalar either; a convolution's input and weight; an index on another GPU.
CUDA_REFUSES = ("when checking argument", "Input type", "indices should be either on cpu")


def cases(every: int, samples: int) -> Iterator[tuple[str, Any, list[Any]]]:
    """(name, operation, leaves with structure) of every chosen operation and sample."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db[::every]:
        dtypes = info.supported_dtypes("cpu")
        if not dtypes:
            continue
        dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        try:
            inputs = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        except Exception as error:  # the database's own trouble (a missing optional package)
            print(f"no samples of {name}: {error}")
            continue
        # The longest argument lists show most.
        inputs.sort(key=lambda sample: -len(_tensors(sample)))
        for number, sample in enumerate(inputs[:samples]):
            yield f"{name}#{number}", info.op, sample


def spreads(count: int) -> Iterator[tuple[str, ...]]:
    """Where each of count tensors goes."""
    for odd in range(min(count, 4)):
        for device in ("cpu", "cuda:1"):
            yield tuple(device if place == odd else "cuda:0" for place in range(count))


def fake_decision(
    operation: Callable[..., Any], sample: Any, devices: tuple[str, ...]
) -> Decision | None:
    mode = FakeTensorMode(allow_non_fake_inputs=False)

    def place(tensor: torch.Tensor, device: str) -> torch.Tensor:
        with torch.no_grad():
            meta = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
            )
        return FakeTensor(mode, meta, torch.device(device))

    with mode:
        return _decide(operation, sample, devices, place)


def virtual_decision(
    operation: Callable[..., Any], sample: Any, devices: tuple[str, ...]
) -> Decision | None:
    return _decide(
        _current(operation), sample, devices, lambda tensor, device: tensor.clone().to(device)
    )


def _current(operation: Callable[..., Any]) -> Callable[..., Any]:
    """What torch calls by the operation's name now; the database keeps what it found at import."""
    for owner in (torch, torch.linalg):
        function = vars(owner).get(getattr(operation, "__name__", "").removeprefix("linalg_"))
        if getattr(function, "__wrapped__", None) is operation:
            return function  # type: ignore[no-any-return]
    return operation


def _decide(
    operation: Callable[..., Any],
    sample: Any,
    devices: tuple[str, ...],
    place: Callable[[torch.Tensor, str], torch.Tensor],
) -> Decision | None:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = iter(devices)
    placed = [
        place(leaf, next(places)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    input_, args, kwargs = pytree.tree_unflatten(placed, spec)
    try:
        result = operation(input_, *args, **kwargs)
    except Exception as error:
        return REFUSED if _is_about_devices(error) else None
    return tuple(
        str(each.device) for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)
    )


def _is_about_devices(error: Exception | None) -> bool:
    while error is not None:
        text = str(error).lower()
        if "device" in text and ("same" in text or "mismatch" in text or "expected" in text):
            return True
        if "indices should be either" in text or "input type" in text:
            return True
        error = error.__cause__  # type: ignore[assignment]
    return False


def _tensors(sample: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take every Nth operation")
    parser.add_argument("--samples", type=int, default=2, help="samples of each operation")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--show", action="store_true", help="print every disagreement")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")

    chosen = list(cases(options.every, options.samples))
    fake = {
        (name, devices): fake_decision(operation, sample, devices)
        for name, operation, sample in chosen
        for devices in spreads(len(_tensors(sample)))
        if all(tensor.layout is torch.strided for tensor in _tensors(sample))
    }
    counts: Counter[str] = Counter()
    operations: dict[str, bool] = {}
    disagreements = []
    messages: list[str] = []
    ddpdoctor.virtual.on_mismatch(lambda name, tensors, message: messages.append(message))
    with ddpdoctor.virtual.gpus(2):
        for name, operation, sample in chosen:
            for devices in spreads(len(_tensors(sample))):
                expected = fake.get((name, devices))
                if expected is None:
                    counts["FakeTensor has no opinion"] += 1
                    continue
                found = virtual_decision(operation, sample, devices)
                short = name.partition("#")[0]
                if expected == found:
                    counts["agree"] += 1
                    operations.setdefault(short, True)
                elif found == REFUSED and any(words in messages[-1] for words in CUDA_REFUSES):
                    counts["stricter than FakeTensor, as CUDA's kernels are"] += 1
                else:
                    counts["disagree"] += 1
                    operations[short] = False
                    disagreements.append([name, list(devices), expected, found])
    decided = counts["agree"] + counts["disagree"]
    figures = {
        "torch": torch.__version__,
        "operations": len(operations),
        "operations that agree throughout": sum(operations.values()),
        "decisions": decided,
        "agreement": round(counts["agree"] / decided, 5),
        **counts,
        "disagreements": disagreements,
    }
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    if options.show:
        for disagreement in disagreements:
            print(*disagreement)
    print({key: value for key, value in figures.items() if key != "disagreements"})


if __name__ == "__main__":
    main()
