"""Where tensors and modules live: moves, results, buffers, and things that follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(2, 2))
        self.register_buffer("scale", torch.ones(2, 2))

    def forward(self, x):
        return {result}

"""
RUN = """
model = DDP(Net().cuda(), device_ids=[local_rank])
model(torch.ones(2, 2).cuda())
"""


@pytest.mark.parametrize(
    "move",
    [
        "model = nn.Linear(1, 1).to(0)  # DDP103",
        "model = nn.Linear(1, 1).cuda(0)  # DDP103",
        "model = nn.Linear(1, 1); model.to(0)  # DDP103",
        "model = nn.Linear(1, 1, device=0)  # DDP103",
        "model = nn.Sequential(nn.Linear(1, 1)).eval().to(0)  # DDP103",
        "model = nn.Linear(1, 1).half().to(device='cuda:0').train()  # DDP103",
        "model = torch.compile(nn.Linear(1, 1).to(0))  # DDP103",
        "model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(1).to(0))  # DDP103",
        "model = copy.deepcopy(nn.Linear(1, 1).to(0))  # DDP103",
        "model = Net().to(0)  # DDP103",
        "model = torchvision.models.resnet50().to(0)  # DDP103",
        "model = Net().to(torch.ones(1, device=0))  # DDP103",
    ],
)
def test_a_module_is_where_it_was_moved(check: Check, move: str) -> None:
    check(
        "import torchvision\n"
        + NET.format(result="self.fc(x)")
        + BOUND
        + move
        + "\nDDP(model, device_ids=[local_rank])  # DDP303\n"
    )


def test_moving_a_module_moves_its_parts_and_its_state(check: Check) -> None:
    check(NET.format(result="self.fc(x) * self.scale + self.weight") + BOUND + RUN)


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(2, 2)",
        "torch.from_numpy(data)",
        "torch.tensor([1.0, 2.0])",
        "torch.ones(2).float().unsqueeze(0)",
        "torch.arange(10)[2:4]",
        "torch.cat([torch.ones(2)])",
        "torch.ones(2) * 2",
    ],
)
@pytest.mark.parametrize("meet", ["x + {}", "{} * x", "torch.cat([x, {}])", "F.mse_loss(x, {})"])
def test_a_tensor_made_in_forward_is_followed_to_where_it_meets(
    check: Check, made: str, meet: str
) -> None:
    body = f"""
        import torch.nn.functional as F
        y = {made}  # DDP105
        return {meet.format("y")}
"""
    check(NET.format(result="x").replace("return x\n", body.strip() + "\n") + BOUND + RUN)


@pytest.mark.parametrize(
    "expression",
    [
        "x + torch.ones(2, 2).cuda()",
        "x + torch.ones(2, 2).to(x)",
        "x + torch.ones(2, 2).to(x.device)",
        "x + torch.ones(2, 2, device=x.device)",
        "x + torch.ones(2).type_as(x)",
        "x + torch.zeros_like(x)",
        "x + x.new_zeros(2)",
        "x + x.new_tensor([1.0, 2.0])",
        "x + torch.tensor(0.5)",
        "x + 1",
        "x[torch.arange(2)]",
        "x + torch.ones(2, 2).to(next(self.parameters()).device)",
        "x + torch.ones(2, 2).to(self.weight.device)",
        "x + unknown(torch.ones(2, 2))",
        "x.cpu() + torch.ones(2, 2)",
        "torch.ones(2) + torch.ones(2)",
        "torch.ones(2).tolist()[0] + x",
        "torch.ones(2).numpy() + 1",
        "x.masked_fill(x > 0, 0.0)",
    ],
)
def test_what_meets_rightly_in_forward(check: Check, expression: str) -> None:
    check(NET.format(result=expression) + BOUND + RUN)


def test_an_unindexed_device_is_resolved_where_it_is_used(check: Check) -> None:
    check("""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    DDP(nn.Linear(1, 1).to(device), device_ids=[local_rank])
    """)


def test_the_current_device_is_zero_until_it_is_set(check: Check) -> None:
    check("""
    early = torch.cuda.current_device()  # DDP103
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    late = torch.cuda.current_device()
    dist.init_process_group("nccl")
    torch.ones(1, device=early)
    torch.ones(1, device=late)
    """)


@pytest.mark.parametrize(
    "made",
    [
        "torch.zeros(1, device='cuda')",
        "torch.tensor([1], device='cuda')",
        "torch.rand(1, device=torch.device('cuda'))",
        "torch.arange(3, device='cuda')",
        "torch.full((1,), 0.5, device='cuda')",
        "torch.as_tensor([1], device='cuda')",
        "torch.zeros_like(torch.ones(1), device='cuda')",
        "torch.ones(1).new_zeros(1, device='cuda')",
        "torch.ones(1).to('cuda')",
        "torch.ones(1).to(device='cuda', dtype=torch.half)",
        "nn.Linear(1, 1, device='cuda')",
        "nn.Linear(1, 1).to('cuda')",
        "nn.Parameter(torch.ones(1, device='cuda'))",
        "torch.load('x.pt', map_location='cuda')",
        "torch.load('x.pt', map_location=torch.device('cuda'))",
        "torch.eye(2, device='cuda')",
        "torch.empty(1, device='cuda')",
        "torch.randperm(4, device='cuda')",
        "torch.linspace(0, 1, 3, device='cuda')",
    ],
)
def test_the_ways_to_put_something_on_cuda(check: Check, made: str) -> None:
    check(f"""
    dist.init_process_group("nccl")  # DDP201
    {made}  # DDP102
    """)


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(1).cuda()",
        "torch.ones(1).cuda(None)",
        "torch.ones(1).cuda(non_blocking=True)",
        "nn.Linear(1, 1).cuda()",
        "nn.CrossEntropyLoss().cuda()",
        "unknown().cuda()",
        "[x.cuda() for x in unknown()]",
        "torch.nn.Module.cuda(nn.Linear(1, 1))",
    ],
)
def test_the_ways_to_call_cuda(check: Check, made: str) -> None:
    check(f"""
    dist.init_process_group("nccl")  # DDP201
    {made}  # DDP101
    """)


LOOPED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x) + torch.zeros(2){marker}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {make}

    def forward(self, x):
        {loop}
        return x
"""


@pytest.mark.parametrize(
    ("make", "loop"),
    [
        ("self.blocks = nn.ModuleList([Block(), Block()])", "for b in self.blocks: x = b(x)"),
        (
            "self.blocks = nn.ModuleList(Block() for _ in range(depth))",
            "for i, b in enumerate(self.blocks): x = b(x)",
        ),
        (
            "self.blocks = nn.ModuleList(); [self.blocks.append(Block()) for _ in range(3)]",
            "for b in self.blocks: x = b(x)",
        ),
        (
            "self.blocks = nn.ModuleList(); [self.blocks.append(Block()) for _ in range(depth)]",
            "for b, _ in zip(self.blocks, x): x = b(x)",
        ),
        (
            "self.blocks = nn.ModuleList(); self.blocks.extend([Block(), Block()])",
            "for b in self.blocks: x = b(x)",
        ),
        ("self.blocks = nn.Sequential(Block())", "for b in self.blocks: x = b(x)"),
        (
            "self.blocks = nn.ModuleList([Block(), Block()])",
            "for i in range(len(self.blocks)): x = self.blocks[i](x)",
        ),
        (
            "self.blocks = nn.ModuleList(Block() for _ in range(depth)); self.depth = depth",
            "for i in range(self.depth): x = self.blocks[i](x)",
        ),
        ("self.blocks = nn.ModuleList([nn.ReLU(), Block()])", "x = self.blocks[-1](x)"),
    ],
)
def test_a_loop_over_modules_in_a_list_calls_each(check: Check, make: str, loop: str) -> None:
    check(LOOPED.format(make=make, loop=loop, marker="  # DDP105") + BOUND + RUN)


def test_modules_appended_to_a_list_move_with_it(check: Check) -> None:
    make = "self.blocks = nn.ModuleList(); self.blocks.append(Block())"
    loop = "for b in self.blocks: x = b(x)"
    check(LOOPED.format(make=make, loop=loop, marker=".to(x.device)") + BOUND + RUN)


def test_a_tensor_is_no_list_and_no_other_builtin(check: Check) -> None:
    check("""
    class Loss(nn.Module):
        def forward(self, outputs):
            if not isinstance(outputs, (list, tuple)):
                outputs = [outputs]
            return sum(torch.ones(1).type(output.type()).sum() for output in outputs)  # DDP102

    def moved(data):
        if torch.is_tensor(data) or isinstance(data, torch.Tensor):
            return data.to(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
        if isinstance(data, dict):
            return {key: moved(value) for key, value in data.items()}
        return torch.ones(1).cuda()

    dist.init_process_group("nccl")  # DDP201
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    Loss()(torch.ones(1, device=device))
    moved({"a": torch.ones(1), "b": torch.ones(1)})
    """)


@pytest.mark.parametrize("asks", ["torch.is_tensor({0})", "isinstance({0}, torch.Tensor)"])
def test_a_number_is_no_tensor(check: Check, asks: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    def as_type(a, b):
        return a.to(b) if {asks.format("a")} and {asks.format("b")} else a
    count = 0
    for batch in unknown():
        count = as_type(count, 1) + 1
    """)


def test_the_rank_in_a_group_of_its_own_is_not_known(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    torch.ones(1, device=dist.get_rank(dist.new_group([0, 1])))
    torch.ones(1, device=dist.get_rank(None))  # DDP203
    """)


def test_whether_the_group_is_open_is_known_where_it_was_opened(check: Check) -> None:
    check("""
    if dist.is_initialized():
        torch.ones(1).to("cuda:0")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if not dist.is_initialized():
        torch.ones(1).to("cuda:0")
    else:
        torch.ones(1).to("cuda:1")  # DDP103
    """)


def test_a_mesh_of_devices_that_are_not_known(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_device_mesh(unknown(), (2, 2))
    torch.ones(1).to("cuda:0")
    """)


@pytest.mark.parametrize(
    "value", ["torch.as_tensor(json.load(unknown()))", "torch.tensor(2.0) * json.load(unknown())"]
)
def test_what_may_be_made_of_a_tensor_of_any_device(check: Check, value: str) -> None:
    check(BOUND + f"dist.all_reduce({value})\n")


@pytest.mark.parametrize("value", ["torch.as_tensor(2.0)", "torch.tensor(2.0) * 3"])
def test_what_is_made_of_numbers_is_on_the_cpu(check: Check, value: str) -> None:
    check(BOUND + f"dist.all_reduce({value})  # DDP402\n")
