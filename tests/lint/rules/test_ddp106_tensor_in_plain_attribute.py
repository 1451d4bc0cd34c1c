"""DDP106: a tensor or module that stays behind when its module moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = DDP(Net().cuda())
model(torch.ones(2, 2).cuda())
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {keep}

    def forward(self, x):
        return {use}
"""


@pytest.mark.parametrize(
    ("keep", "use"),
    [
        ("self.scale = torch.ones(2)", "x * self.scale"),
        ("self.scale = torch.ones(2).float()", "self.scale * x"),
        ("self.table = torch.zeros(4, 2)", "torch.cat([x, self.table])"),
        ("self.scale = torch.ones(2) * 20", "x / (self.scale + 1e-3)"),
        ("self.scale = torch.ones(2)", "x * self.scale.view(1, -1)[:, :2]"),
        ("self.parts = [nn.Linear(2, 2)]", "self.parts[0](x)"),
        ('self.parts = {"a": nn.Linear(2, 2)}', 'self.parts["a"](x)'),
        ("self.parts = [nn.CrossEntropyLoss(weight=torch.ones(2))]", "self.parts[0](x, x)"),
    ],
)
def test_what_stays_on_the_cpu(check: Check, keep: str, use: str) -> None:
    found = check(NET.format(keep=keep + "  # DDP106: error", use=use) + BOUND)
    assert "plain attribute" in found["DDP106"].message
    expected = "nn.ModuleList" if "parts" in keep else "register_buffer"
    assert expected in found["DDP106"].repair


@pytest.mark.parametrize(
    ("keep", "use"),
    [
        ('self.register_buffer("scale", torch.ones(2))', "x * self.scale"),
        ('self.register_buffer("scale", torch.ones(2), persistent=False)', "x * self.scale"),
        ("self.scale = nn.Parameter(torch.ones(2))", "x * self.scale"),
        ("self.scale = nn.Buffer(torch.ones(2))", "x * self.scale"),
        ("self.scale = torch.ones(2)", "x * self.scale.to(x.device)"),
        ("self.scale = torch.ones(2)", "x * self.scale.to(x)"),
        ("self.scale = torch.ones(2)", "x * self.scale.cuda()"),
        ("self.scale = torch.tensor(2.0)", "x * self.scale"),
        ("self.scale = 2.0", "x * self.scale"),
        ("self.scale = torch.ones(2)", "x"),
        ("self.scale = torch.ones(2).cuda()", "x * self.scale"),
        ("self.parts = nn.ModuleList([nn.Linear(2, 2)])", "self.parts[0](x)"),
        ("self.parts = nn.Sequential(nn.Linear(2, 2))", "self.parts(x)"),
        ("self.parts = [nn.MSELoss(), nn.L1Loss(reduction='sum')]", "self.parts[0](x, x)"),
        ("self.parts = [nn.CrossEntropyLoss(weight=unknown())]", "self.parts[0](x, x)"),
        ("self.parts = [nn.CrossEntropyLoss(torch.ones(2).cuda())]", "self.parts[0](x, x)"),
        ('self.parts = {"relu": nn.ReLU(), "elu": nn.ELU()}', 'x + self.parts["relu"](x)'),
        ("self.parts = [nn.MaxPool2d(2), nn.Dropout(0.1)]", "self.parts[1](self.parts[0](x))"),
        ('self.parts = nn.ModuleDict({"a": nn.Linear(2, 2)})', 'self.parts["a"](x)'),
    ],
)
def test_what_is_where_it_is_used(check: Check, keep: str, use: str) -> None:
    source = NET.format(keep=keep, use=use) + BOUND
    if ".ones(2).cuda()" in keep:  # made before the module: the process has to be bound first
        source = BOUND.split("model")[0] + NET.format(keep=keep, use=use) + BOUND
    check(source)


def test_a_tensor_that_a_method_makes_for_init_is_one_finding(check: Check) -> None:
    check(
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = self.make()  # DDP106

    def make(self):
        return torch.ones(2)

    def forward(self, x):
        return x * self.scale
"""
        + BOUND
    )


def test_a_module_that_moves_it_by_hand(check: Check) -> None:
    check(
        NET.format(keep="self.scale = torch.ones(2)", use="x * self.scale")
        + """
    def _apply(self, fn):
        super()._apply(fn)
        self.scale = fn(self.scale)
        return self
"""
        + BOUND
    )


def test_a_program_that_never_becomes_distributed(check: Check) -> None:
    check(
        NET.format(keep="self.scale = torch.ones(2)", use="x * self.scale")
        + "model = Net().cuda()\nmodel(torch.ones(2, 2).cuda())\n"
    )


def test_tensors_that_meet_on_the_cpu(check: Check) -> None:
    check(
        NET.format(keep="self.a = torch.ones(2); self.b = torch.ones(2)", use="self.a + self.b")
        + BOUND
    )


def test_a_buffer_of_a_module_that_is_kept_in_a_dict(check: Check) -> None:
    check(
        """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("hit", torch.ones(2))

    def forward(self, x):
        return x + self.hit
"""
        + NET.format(keep='self.parts = {"a": Part()}  # DDP106', use='self.parts["a"](x)')
        + BOUND
    )


@pytest.mark.parametrize(
    ("empty", "add", "get"),
    [("[]", "parts.append({})", "parts[0]"), ("{}", 'parts["a"] = {}', 'parts["a"]')],
)
def test_a_module_that_is_put_into_a_plain_container(
    check: Check, empty: str, add: str, get: str
) -> None:
    program = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = {empty}
        for _ in range(2):
            self.{add}{marker}

    def forward(self, x):
        return self.{get}(x)
"""
    layer = "nn.Linear(2, 2)"
    marked = program.format(empty=empty, add=add.format(layer), marker="  # DDP106", get=get)
    found = check(marked + BOUND)
    assert found["DDP106"].fix is None
    listed = "nn.ModuleList()" if empty == "[]" else "nn.ModuleDict()"
    check(program.format(empty=listed, add=add.format(layer), marker="", get=get) + BOUND)
    check(program.format(empty=empty, add=add.format("nn.ReLU()"), marker="", get=get) + BOUND)


@pytest.mark.parametrize(
    "weight",
    [
        "nn.Linear(2, 2, bias=False).weight",
        "self.words.weight",
        "next(self.words.parameters())",
        "list(self.words.parameters())[0]",
        "nn.init.xavier_uniform_(nn.Parameter(torch.ones(2, 2)))",
    ],
)
def test_the_weight_of_a_module_is_a_parameter(check: Check, weight: str) -> None:
    check(
        f"""
class Head(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return nn.functional.linear(x, self.weight) + self.weight

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2, 2)
        self.last = nn.Linear(2, 2)
        self.last.weight = {weight}
        self.head = Head({weight})

    def forward(self, x):
        return self.head(x) + x * self.last.weight
"""
        + BOUND
    )


def test_the_data_of_a_weight_is_none(check: Check) -> None:
    check(
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2, 2)
        self.table = self.words.weight.data  # DDP106

    def forward(self, x):
        return x + self.table
"""
        + BOUND
    )
