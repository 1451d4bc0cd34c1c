"""DDP402: a CPU tensor in a collective of NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

START = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group({backend})
x = torch.ones(1)
"""


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(x)",
        "dist.all_reduce(torch.tensor([1.0]))",
        "dist.broadcast(x, src=0)",
        "dist.broadcast(x.cuda().cpu(), 0)",
        "dist.reduce(tensor=x, dst=0)",
        "dist.all_reduce(x, group=None)",
        "dist.all_reduce(x, group=dist.new_group())",
        "dist.all_reduce(x, group=dist.new_group(backend='nccl'))",
        "torch.distributed.all_reduce(x * 2, op=dist.ReduceOp.SUM)",
    ],
)
def test_a_cpu_tensor(check: Check, call: str) -> None:
    found = check(START.format(backend='"nccl"') + f"{call}  # DDP402: error\n")
    assert "No backend type associated with device type cpu" in found["DDP402"].symptom
    # To make a tensor on the GPU is no repair where it is brought back to the CPU.
    assert (found["DDP402"].fix is None) == (".cpu()" in call)


@pytest.mark.parametrize("join", ["torch.cat(results)", "torch.stack(results, dim=1)"])
def test_results_of_many_batches_that_were_brought_to_the_cpu(check: Check, join: str) -> None:
    check(
        START.format(backend='"nccl"')
        + f"""
results, kept = [], []
for batch in load():
    results.append((batch == read()).float().cpu())
    kept.append((batch == read()).float().cuda())
dist.all_reduce({join})  # DDP402
dist.all_reduce({join.replace("results", "kept")})
    """
    )


@pytest.mark.parametrize("backend", ["", "None", "init_method='env://'"])
def test_the_default_backend_of_a_machine_with_gpus(check: Check, backend: str) -> None:
    check(START.format(backend=backend) + "dist.all_reduce(x)  # DDP402: warning\n")


def test_an_option_counts_at_its_default(check: Check) -> None:
    check(
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--dist-backend", default="nccl")\n'
        "args = parser.parse_args()\n"
        + START.format(backend="args.dist_backend")
        + "dist.all_reduce(x)  # DDP402: error\n"
    )


def test_the_default_backend_where_no_gpu_is_used(check: Check) -> None:
    check("dist.init_process_group(); dist.all_reduce(torch.ones(1))")


@pytest.mark.parametrize("backend", ['"gloo"', '"cpu:gloo,cuda:nccl"', "unknown()"])
def test_backends_that_send_from_the_cpu(check: Check, backend: str) -> None:
    check(START.format(backend=backend) + "dist.all_reduce(x)\n")


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(x.cuda())",
        "dist.all_reduce(unknown())",
        "dist.all_reduce(x.cuda() if unknown() else x)",
        "dist.all_reduce(x, group=dist.new_group(backend='gloo'))",
        "dist.all_reduce(x, group=unknown())",
        "dist.all_to_all(unknown(), unknown())",
        "if dist.get_rank() == 0: dist.broadcast(x, 0)",
        "x = x.to('cuda'); dist.all_reduce(x)",
    ],
)
def test_what_nccl_can_send(check: Check, call: str) -> None:
    check(START.format(backend='"nccl"') + call)


@pytest.mark.parametrize(
    ("outputs", "marker"),
    [
        ("x", "# DDP402"),
        ("x.cuda()", ""),
        ("unknown()", ""),
        ("DDP(nn.Linear(2, 2).cuda(), static_graph=unknown())(x.cuda())", ""),
        ("(x.cuda() if unknown() else unknown())", ""),
        ("(first if unknown() else second)(x)", ""),
    ],
)
def test_a_loss_is_where_its_first_argument_is(check: Check, outputs: str, marker: str) -> None:
    check(
        START.format(backend="'nccl'")
        + f"""
first, second = DDP(nn.Linear(2, 2).cuda()), DDP(nn.Linear(3, 2).cuda())
loss = nn.CrossEntropyLoss()({outputs}, unknown())
dist.all_reduce(loss)  {marker}
"""
    )


@pytest.mark.parametrize(
    "lines",
    [
        "out = [torch.zeros(1), torch.zeros(1)]",
        "out = [torch.zeros(1) for _ in range(dist.get_world_size())]",
    ],
)
def test_the_list_that_a_collective_fills(check: Check, lines: str) -> None:
    check(f"""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    {lines}
    dist.all_gather(out, torch.ones(1).cuda())  # DDP402
    good = [torch.zeros(1).cuda() for _ in range(2)]
    dist.all_gather(good, torch.ones(1).cuda())
    """)


def test_no_repair_of_one_branch_where_another_makes_the_tensor_too(check: Check) -> None:
    found = check(
        START.format(backend='"nccl"')
        + """
if dist.get_rank() == 0:
    length = torch.tensor([int(input())])
else:
    length = torch.tensor([0])
dist.broadcast(length, src=0)  # DDP402
"""
    )
    assert found["DDP402"].fix is None
