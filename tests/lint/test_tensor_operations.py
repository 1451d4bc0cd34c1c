"""Operations on tensors: which of them take tensors of several devices, and where the results are.

What lint says of each expression is compared with what happens on virtual GPUs.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.table = nn.Embedding(8, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.kept = torch.arange(16.0).view(4, 4)
        self.listed = [torch.ones(4, 4)] * 2
        self.register_buffer("scale", torch.ones(4, 4))

    def forward(self, x):
        ids = torch.arange(4, device=x.device)
        {body}

"""
RUN = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(Net().cuda(), device_ids=[local_rank])
model(torch.ones(4, 4).cuda())
"""

REFUSED = [
    "x + torch.ones(4, 4)",
    "torch.eye(4) @ x",
    "x == torch.ones(4, 4)",
    "torch.ones(4, 4) < x",
    "(x > 0) & torch.ones(4, 4).bool()",
    "torch.eq(x, torch.ones(4, 4))",
    "x.sub(other=torch.ones(4, 4))",
    "-torch.ones(4, 4) * x",
    "x.masked_fill(~torch.eye(4).bool(), 0.0)",
    "x.masked_fill(torch.triu(torch.ones(4, 4), 1) == 0, 0.0)",
    "x.clone().add_(torch.ones(4))",
    "torch.where(torch.ones(4, 4) > 0, x, 0.0)",
    "torch.where(x > 0, x, torch.zeros(4, 4))",
    "torch.cat([x, torch.ones(4, 4)])",
    "torch.stack((torch.ones(4, 4), x))",
    "torch.addmm(x, x, torch.ones(4, 4))",
    "torch.bmm(x[None], torch.ones(4, 4)[None])",
    "torch.einsum('ij,jk->ik', x, torch.ones(4, 4))",
    "x.index_select(0, torch.arange(4))",
    "x.gather(1, torch.zeros(4, 4, dtype=torch.long))",
    "x.scatter(1, torch.zeros(4, 4).long(), 1.0)",
    "torch.masked_select(x, torch.ones(4, 4) > 0)",
    "nn.functional.mse_loss(x, target=torch.ones(4, 4))",
    "nn.functional.linear(x, torch.ones(4, 4), None)",
    "nn.functional.cross_entropy(x, torch.arange(4))",
    "self.table(torch.arange(4))",
    "self.attention(x[None], x[None], torch.ones(1, 4, 4))",
    "torch.ones(4, 4)[ids]",
    "torch.ones(4, 4)[:, ids]",
    "torch.ones(4, 4)[x > 0]",
    "x + torch.ones(4, 4)[0]",
    "x + torch.ones(4, 4)[:, 0]",
    "x + torch.ones(4)[None]",
    "x + torch.ones(2, 4, 4)[0, 1]",
    "x + torch.ones(4, 4).max(1)[0]",
    "x.max() + torch.ones(4, 4)",
    "x + torch.rand(*x.shape)[...]",
    "x + torch.rand(*x.shape)[:, 0]",
    "x + torch.rand(*x.shape)[None, 0]",
    "x + torch.ones(4, 4).float()[0]",
    "x + torch.ones(4, 4).cumsum(0).unsqueeze(0)[0, 0]",
    "x + torch.ones(16).view(4, 4)[0]",
    "x + torch.ones(4, 4).sort(dim=1).values",
    "x + torch.ones(4, 4).mean(0)",
    "x + torch.ones(4, 4).t().contiguous().view(4, 4).float()",
    "x + torch.ones(4, 8).chunk(2, dim=1)[0]",
    "x + torch.zeros_like(torch.ones(4, 4))",
    "x + torch.ones(4, 4).new_zeros(4, 4)",
    "x + torch.as_tensor(torch.ones(4, 4))",
    "x + torch.tensor([1.0, 2.0, 3.0, 4.0])",
    "x + torch.tensor(2.0).reshape(1)",
    "x + torch.tensor(2.0).expand(4)",
    "x + torch.ones(4).sum(0, keepdim=True)",
    "x + torch.ones(4, 4).sum(dim=(1,))",
    "x + torch.ones(4, 4) @ torch.ones(4)",
    "x + torch.ones(4, 4).select(0, 1)",
    "x + torch.maximum(torch.ones(4), torch.ones(4))",
    "x + torch.max(torch.ones(4), torch.ones(4))",
    "x + nn.functional.mse_loss(torch.ones(4), torch.ones(4), reduction='none')",
    "x + torch.ones(1, 4).squeeze(0)",
    "x + torch.ones(4, 4).data",
    "x + torch.full((4,), 2.0)",
    "sum([x, torch.ones(4, 4)])",
    "x * torch.tensor(2.0) + torch.ones(4)",
    "torch.tensor(2.0) * torch.ones(4) + x",
    "sum(t * x for t in torch.ones(4, 4))",
]
ALLOWED = [
    "x[torch.arange(4)]",
    "x[:, torch.arange(4)]",
    "x[torch.ones(4, 4).bool()]",
    "x[torch.arange(4), ids]",
    "x + torch.tensor(2.0)",
    "x + torch.tensor(2.0).sqrt()",
    "torch.tensor(2.0) < x",
    "x + torch.ones(4)[0]",
    "x + torch.ones(4, 4)[0, 0]",
    "x + torch.rand(x.numel() // 4)[0]",
    "x + torch.ones(4, 4)[0][0]",
    "x + torch.ones(4, 4)[..., 0].sum()",
    "x + torch.ones(4, 4).mean()",
    "x + torch.zeros(())",
    "x + torch.zeros(size=())",
    "x + torch.ones(1).reshape(())",
    "x + torch.ones(1).squeeze()",
    "x + torch.ones(4).sum(0)",
    "x + torch.ones(4, 4).sum((0, 1))",
    "x + torch.mean(torch.ones(4), dim=0)",
    "x + torch.ones(4).max(0)[0]",
    "x + torch.ones(4).min(dim=0).values",
    "x + torch.ones(4).select(0, 1)",
    "x + torch.ones(4) @ torch.ones(4)",
    "x + torch.dot(torch.ones(4), torch.ones(4))",
    "x + torch.trace(torch.eye(4))",
    "x + torch.linalg.vector_norm(torch.ones(4))",
    "x + torch.linalg.det(torch.eye(4))",
    "x + torch.ones(4).quantile(0.5)",
    "x + nn.functional.mse_loss(torch.ones(4), torch.ones(4))",
    "x.masked_fill(x > 0, torch.tensor(2.0))",
    "x + torch.zeros_like(x)",
    "x + x.new_zeros(4, 4)",
    "x + x.new_tensor([1.0, 2.0, 3.0, 4.0])",
    "x + x.new_full((4,), 2.0)",
    "x + torch.ones(4, 4).type_as(x)",
    "x + torch.ones(4, 4).to(x)",
    "x + torch.tensor(x)",
    "x + torch.as_tensor(x)",
    "x + (x.cpu() + torch.ones(4, 4)).cuda()",
    "torch.ones(4, 4).expand_as(x)",
    "torch.empty_like(x).copy_(torch.ones(4, 4))",
    "x + (torch.tensor(2.0) * x)",
    "x + torch.ones(4, 4) if not x.is_cuda else x",
    "x if torch.is_tensor(x) else x + torch.ones(4, 4)",
    "x + torch.as_tensor(json.loads('2'))",
    "x + torch.tensor(json.loads('2'))",
]
REFUSED_STATEMENTS = [
    """
half = torch.tensor(0.5)
weights = half * torch.ones(4)  # DDP105
return x + weights
    """,
    """
self.made = torch.ones(4, 4)  # DDP105
return x + self.made
    """,
    """
y = x.clone()
y[torch.arange(4)] = torch.ones(4, 4)  # DDP105
return y
    """,
    """
y = x.clone()
y[x > 0] = torch.ones(16)  # DDP105
return y
    """,
    """
y = torch.ones(4, 4)  # DDP105
y[x > 0] = 0
return y
    """,
    """
y = x.clone()
y += torch.ones(4, 4)  # DDP105
return y
    """,
    """
y = torch.ones(4, 4)  # DDP105
y.requires_grad_()
return y.detach() * x
    """,
    """
values, where = torch.ones(4, 4).max(1)  # DDP105
return x + values
    """,
    """
first, second = torch.ones(2, 4)  # DDP105
return x + first
    """,
    """
if x.sum() > 0:
    return x + torch.ones(4, 4)  # DDP105
return x
    """,
]
ALLOWED_STATEMENTS = [
    """
y = x.clone()
y[0] = torch.ones(4)
y[:, 1:] = torch.ones(4, 3)
y[x > 0] = torch.tensor(2.0)
y[torch.arange(4)] = 0
return y
    """,
    """
y = torch.ones(4, 4)
y = y if y.is_cuda else y.cuda()
return y + x
    """,
    """
a, b = torch.ones(2)
return x + a + b
    """,
    """
if torch.isnan(x).any():
    raise ValueError
return x
    """,
    """
if self.kept.type() != x.data.type():
    self.kept = self.kept.type_as(x.data)
return x + self.kept
    """,
]
KEPT = [
    "x + self.kept",
    "x + self.kept[0]",
    "x > self.kept",
    "x + torch.ones_like(self.kept)",
    "x + self.kept.new_ones(4, 4)",
    "torch.where(self.kept > 0, x, 0.0)",
]


def _module(body: str) -> str:
    return MODULE.format(body=indent(dedent(body).strip(), " " * 8).strip())


@pytest.mark.parametrize(
    "body", [f"return {each}  # DDP105" for each in REFUSED] + REFUSED_STATEMENTS
)
def test_a_tensor_of_the_cpu_meets_one_of_a_gpu(check: Check, body: str) -> None:
    check(_module(body) + RUN)


@pytest.mark.parametrize("body", [f"return {each}" for each in ALLOWED] + ALLOWED_STATEMENTS)
def test_what_may_meet(check: Check, body: str) -> None:
    check(_module(body) + RUN)


@pytest.mark.parametrize("expression", KEPT)
def test_a_tensor_in_an_attribute_meets_one_of_a_gpu(check: Check, expression: str) -> None:
    source = _module(f"return {expression}") + RUN
    kept = "self.kept = torch.arange(16.0).view(4, 4)"
    check(source.replace(kept, f"{kept}  # DDP106"))


@pytest.mark.parametrize(
    "use", ["x + self.listed[0]", "x + self.listed[len(x.shape) - 1]", "sum(self.listed) + x"]
)
def test_a_tensor_in_a_list_meets_one_of_a_gpu(check: Check, use: str) -> None:
    source = _module(f"return {use}") + RUN
    kept = "self.listed = [torch.ones(4, 4)] * 2"
    check(source.replace(kept, f"{kept}  # DDP106"))


def test_lists_that_the_module_moves_itself(check: Check) -> None:
    moves = """
    def _apply(self, move):
        self.listed = [move(each) for each in self.listed]
        return super()._apply(move)
"""
    check(_module("return x + self.listed[0]").rstrip() + "\n" + moves + RUN)


def test_a_buffer_that_depends_moves_with_its_module(check: Check) -> None:
    check(
        """
class Net(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.norm = nn.LayerNorm(4) if shift else None
        self.register_buffer("mask", self.make_mask() if shift else None)

    def make_mask(self):
        return torch.ones(4, 4)

    def forward(self, x):
        if self.mask is not None:
            return self.norm(x) + x * self.mask
        return x + self.make_mask().to(x.device)

"""
        + RUN.replace("Net()", "Net(unknown())")
    )


def test_the_lengths_of_a_packed_sequence_are_on_the_cpu(check: Check) -> None:
    body = """
    state = x.new_zeros(1, 4, 4), x.new_zeros(1, 4, 4)
    packed = nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([4]))
    out, _ = nn.LSTM(4, 4).cuda()(packed, state)
    out, lengths = nn.utils.rnn.pad_packed_sequence(out)
    mask = torch.arange(4)[None] < lengths[:, None]
    return out * mask[..., None].to(x.device)
    """
    check(_module(body) + RUN)


def test_virtual_gpus_say_the_same() -> None:
    """One process for all: switching virtual GPUs on takes a second."""
    import torch

    from ddpdoctor.virtual import gpus

    bodies = [(f"return {each}", True) for each in REFUSED]
    bodies += [(each, True) for each in REFUSED_STATEMENTS]
    bodies += [(f"return {each}", True) for each in KEPT]
    bodies += [(f"return {each}", False) for each in ALLOWED]
    bodies += [(each, False) for each in ALLOWED_STATEMENTS]
    with gpus(2):
        torch.cuda.set_device(1)
        for body, refused in bodies:
            names = {"torch": torch, "nn": torch.nn, "json": json}
            exec(_module(body), names)
            model = names["Net"]().cuda()
            with pytest.raises(RuntimeError, match=r"device|indices") if refused else nullcontext():
                model(torch.ones(4, 4).cuda())
