"""DDP105: a tensor made on the CPU in forward, then mixed with the GPU's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
"""
NET = """
class Net(nn.Module):
    def forward(self, x):
        {body}
"""
RUN = """
model = DDP(Net().cuda())
model(torch.ones(2, 2).cuda())
"""


def test_a_tensor_without_a_device_meets_the_input(check: Check) -> None:
    found = check(NET.format(body="return x + torch.ones(2, 2)  # DDP105: error") + BOUND + RUN)
    assert "made on the CPU in forward" in found["DDP105"].message
    assert "device=x.device" in found["DDP105"].repair
    assert found["DDP105"].fix is not None


@pytest.mark.parametrize(
    "forward",
    [
        "x + h",
        "self.lstm(x, (h, h))",
        "torch.cat([x, h])",
        "nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=h)",
    ],
)
def test_where_the_program_can_also_run_on_the_cpu(check: Check, forward: str) -> None:
    check(
        f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 2)

    def forward(self, x):
        h = torch.zeros(2, 2)  # DDP105
        return {forward}
"""
        + BOUND
        + """
device = torch.device("cuda" if int(os.environ["NUM_GPUS"]) > 0 else "cpu")
model = DDP(Net().to(device))
model(torch.ones(2, 2).to(device))
"""
    )


PLACES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = [torch.zeros(1)]

    def forward(self, x):
        {body}
        return x + h
"""


@pytest.mark.parametrize(
    "body",
    [
        "h, _ = torch.meshgrid([torch.arange(2), torch.arange(2)], indexing='ij')  # DDP105",
        "_, h = torch.ones(4).chunk(2)  # DDP105",
        "h = torch.sort(torch.ones(4))[0]  # DDP105",
        "h = torch.zeros(2)  # DDP105\n        if unknown(): h = torch.ones(2)  # DDP105",
    ],
)
def test_parts_and_alternatives_that_are_all_on_the_cpu(check: Check, body: str) -> None:
    check(PLACES.format(body=body) + BOUND + RUN)


@pytest.mark.parametrize(
    "body",
    [
        "h = torch.tensor([0.5, 2.0])[0]",  # without dimensions
        "h, _ = torch.tensor([0.5, 2.0])",
        "h = torch.tensor([0.5, 2.0]).unbind()[0]",
        "h = x if unknown() else torch.ones(2)",
        "h = self.grid[0]\n"
        "        if h.shape != x.shape: h = self.grid[0] = torch.ones(2).to(x.device)",
    ],
)
def test_parts_and_alternatives_that_may_fit(check: Check, body: str) -> None:
    check(PLACES.format(body=body) + BOUND + RUN)


@pytest.mark.parametrize(
    "body",
    [
        "h = h.to(device)",
        "h = h.cuda() if gpus > 0 else h",
        "h = h.cuda() if x.is_cuda else h",
        "h = h.cuda() if unknown() else h",
        "h = h.to(next(self.parameters()).device)",
        "h = h.type(x.type())",
        "h = h.type(self.weight.type())",
        "h = h.type(torch.cuda.FloatTensor)",
    ],
)
def test_where_it_moves_along_with_the_input(check: Check, body: str) -> None:
    check(
        f"""
gpus = int(os.environ["NUM_GPUS"])
device = torch.device("cuda" if gpus > 0 else "cpu")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))

    def forward(self, x):
        h = torch.zeros(2, 2)
        {body}
        return x + h
"""
        + BOUND
        + "DDP(Net().to(device))(torch.ones(2, 2).to(device))"
    )


def test_it_is_reported_where_it_is_made(check: Check) -> None:
    found = check(
        NET.format(body="mask = self.mask(x); return x * mask")
        + "    def mask(self, x):\n        return torch.ones(2, 2)  # DDP105\n"
        + BOUND
        + RUN
    )
    assert [r.message for r in found["DDP105"].related] == ["the two meet here"]


def test_a_forward_that_nobody_is_seen_to_call_is_run_too(check: Check) -> None:
    check(
        """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(torch.ones(2, 2))  # DDP105

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    DDP(Net().cuda())
    """
    )


@pytest.mark.parametrize(
    "body",
    [
        "return x + torch.ones(2, 2, device=x.device)",
        "return x + torch.ones(2, 2).to(x)",
        "return x + torch.ones(2, 2).type_as(x)",
        "return x + torch.ones(2, 2).cuda()",
        "return x + torch.tensor(0.5)",
        "return x[torch.arange(2)]",
        "return x + x.new_ones(2)",
        "return x + torch.ones_like(x)",
        "return torch.ones(2, 2)",
        "return torch.ones(2, 2) + torch.ones(2)",
    ],
)
def test_what_is_right_in_forward(check: Check, body: str) -> None:
    check(NET.format(body=body) + BOUND + RUN)


def test_a_model_on_the_cpu_is_right(check: Check) -> None:
    check(
        NET.format(body="return x + torch.ones(2, 2)")
        + """
dist.init_process_group("gloo")
DDP(Net())(torch.ones(2, 2))
"""
    )


def test_a_program_that_never_becomes_distributed(check: Check) -> None:
    check(NET.format(body="return x + torch.ones(2, 2)") + RUN.replace("DDP(", "nn.Sequential("))


@pytest.mark.parametrize(
    "made",
    [
        "torch.tensor([0.1, 0.2]).mean()",
        "torch.arange(3).sum()",
        "torch.max(torch.ones(3))",
        "torch.ones(4)[0]",
    ],
)
def test_a_tensor_reduced_to_a_number_may_meet_any_device(check: Check, made: str) -> None:
    check(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) * {made}

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    DDP(Net().cuda())(torch.ones(1, 4).cuda())
    """)


@pytest.mark.parametrize("made", ["torch.ones(3, 4).sum(0)", "torch.ones(3, 4).mean(dim=0)"])
def test_a_tensor_reduced_along_a_dimension_is_still_one(check: Check, made: str) -> None:
    check(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) * {made}  # DDP105

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    DDP(Net().cuda())(torch.ones(1, 4).cuda())
    """)


RNN = """
class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def init_hidden(self, batch):
        return torch.zeros(1, batch, 4){of_hidden}, torch.zeros(1, batch, 4, device="cuda")

    def forward(self, x, hidden):
        return self.lstm(x, hidden)

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = RNN().cuda()
wrapped = DDP(model)
wrapped(torch.ones(3, 2, 4).cuda(), model.init_hidden(2))
"""


def test_a_tensor_of_another_method_in_a_tuple(check: Check) -> None:
    marked = RNN.replace('cuda")\n', 'cuda")  # DDP105\n', 1)
    found = check(marked.format(of_hidden=""))
    assert "in init_hidden" in found["DDP105"].message
    assert found["DDP105"].fix is not None
    (edit,) = found["DDP105"].fix.edits
    assert edit.content == ", device=next(self.parameters()).device"


def test_a_tensor_of_another_method_that_is_moved(check: Check) -> None:
    check(RNN.format(of_hidden=".to(next(self.parameters()).device)"))


@pytest.mark.parametrize(
    ("state", "device"),
    [
        ('self.register_buffer("scale", torch.ones(4))', "self.scale.device"),
        ("self.scale = nn.Parameter(torch.ones(4))", "self.scale.device"),
        ("self.scale = nn.Linear(4, 4)", "next(self.parameters()).device"),
    ],
)
def test_the_repair_asks_what_the_module_has(check: Check, state: str, device: str) -> None:
    found = check(f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            {state}

        def forward(self, length):
            x = torch.ones(length, 4)  # DDP105
            return self.scale(x) if {"nn.Linear" in state} else self.scale * x

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Net().cuda()(3)
    """)
    assert found["DDP105"].fix is not None
    (edit,) = found["DDP105"].fix.edits
    assert edit.content == f", device={device}"


@pytest.mark.parametrize("kind", ["torch.Tensor", "torch.LongTensor"])
def test_the_repair_moves_what_takes_no_device(check: Check, kind: str) -> None:
    found = check(f"""
    class Net(nn.Module):
        def forward(self, x):
            return x * {kind}([1, 2])  # DDP105

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Net().cuda()(torch.ones(2).cuda())
    """)
    assert found["DDP105"].fix is not None
    (edit,) = found["DDP105"].fix.edits
    assert edit.content == f"{kind}([1, 2]).to(x.device)"


@pytest.mark.parametrize("loss", ["self.ctc", "nn.CTCLoss(blank=0)", "nn.functional.ctc_loss"])
def test_lengths_that_stay_on_the_cpu(check: Check, loss: str) -> None:
    check(f"""
    class Recogniser(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, 30)
            self.ctc = nn.CTCLoss(blank=0)

        def forward(self, x, targets):
            scores = self.encoder(x).log_softmax(-1)
            lengths = torch.full((4,), 50)
            return {loss}(scores, targets, lengths, torch.full((4,), 10))

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = DDP(Recogniser().cuda())
    model(torch.ones(50, 4, 8).cuda(), torch.ones(4, 10).cuda())
    """)
