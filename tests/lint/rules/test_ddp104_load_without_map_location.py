"""DDP104: a checkpoint that goes back to the GPU it was saved from, on every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

BOUND = """
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = nn.Linear(1, 1).cuda()
"""


@pytest.mark.parametrize(
    "load",
    [
        'model.load_state_dict(torch.load("x.pt"))  # DDP104: warning',
        'model.load_state_dict(torch.load("x.pt", weights_only=True)["model"])  # DDP104',
        'model.load_state_dict(torch.load("x.pt", map_location=None))  # DDP104',
        'state = torch.load("x.pt"); model.load_state_dict(state)  # DDP104',
        'model.load_state_dict(torch.hub.load_state_dict_from_url("https://x"))  # DDP104',
        """
state = torch.load("x.pt")["model"]  # DDP104
own = model.state_dict()
own.update({name: value for name, value in state.items() if name in own})
model.load_state_dict(own)
        """,
        """
state = collections.OrderedDict()
for name, value in torch.load("x.pt").items():  # DDP104
    if value.dim() == 1 and name.startswith("module."):
        state[name[7:]] = value
    else:
        state[name] = value
model.load_state_dict(copy.deepcopy(state).copy())
        """,
        """
own = model.state_dict()
for name, value in dict(torch.load("x.pt")).items():  # DDP104
    if value.size() == own[name].size():
        own[name] = value
model.load_state_dict(own)
        """,
        """
own = model.state_dict()
for name, value in torch.load("x.pt").items():  # DDP104
    own[name].copy_(value)
        """,
        'model.load_state_dict(dict((n, v) for n, v in torch.load("x.pt").items()))  # DDP104',
        """
@dataclasses.dataclass
class Snapshot:
    model: dict
    epoch: int

snapshot = Snapshot(**torch.load("x.pt"))  # DDP104
model.load_state_dict(snapshot.model)
        """,
        """
class Saved:
    def __init__(self, path, **more):
        self.fill(**torch.load(path), **more)  # DDP104

    def fill(self, state, epoch=0):
        model.load_state_dict(state)

Saved("x.pt")
        """,
    ],
)
def test_a_state_loaded_without_a_mapping(check: Check, load: str) -> None:
    found = check(BOUND + load)
    assert "map_location" in found["DDP104"].message


def test_a_wrapper_that_passes_no_mapping_on(check: Check) -> None:
    check(
        BOUND
        + """
def load(path, map_location=None):
    return torch.load(path, map_location=map_location)  # DDP104

model.load_state_dict(load("x.pt"))
"""
    )


def test_a_wrapper_that_is_given_one(check: Check) -> None:
    check(
        BOUND
        + """
def load(path, map_location=None):
    return torch.load(path, map_location=map_location)

model.load_state_dict(load("x.pt", "cpu"))
"""
    )


@pytest.mark.parametrize(
    "load",
    [
        'model.load_state_dict(torch.load("x.pt", map_location="cpu"))',
        'model.load_state_dict(torch.load("x.pt", "cpu"))',
        'model.load_state_dict(torch.load("x.pt", map_location=torch.device("cpu")))',
        'model.load_state_dict(torch.load("x.pt", map_location=f"cuda:{local_rank}"))',
        'model.load_state_dict(torch.load("x.pt", map_location={"cuda:0": f"cuda:{local_rank}"}))',
        'model.load_state_dict(torch.load("x.pt", map_location=lambda storage, loc: storage))',
        'model.load_state_dict(torch.load("x.pt", map_location="cuda"))',
        'model.load_state_dict(torch.load("x.pt", map_location=next(model.parameters()).device))',
        'model.load_state_dict(torch.load("x.pt", **options))',
        'if dist.get_rank() == 0: model.load_state_dict(torch.load("x.pt"))',
        'data = torch.load("dataset.pt")',
        'torch.save(model.state_dict(), "x.pt")',
        'json.load(open("x.json"))',
    ],
)
def test_a_load_that_is_right(check: Check, load: str) -> None:
    check(BOUND + load)


def test_what_a_checkpoint_gives_as_keywords_is_not_known(check: Check) -> None:
    check(
        BOUND
        + """
def build(state, device=None, fast=False):
    if device is None:
        torch.ones(1, device="cuda:0")  # DDP103
    if not fast:
        torch.ones(1, device="cuda:1")  # DDP103

build(**torch.load("x.pt"))
    """
    )


def test_without_a_job_a_load_is_right(check: Check) -> None:
    check("""
    model = nn.Linear(1, 1).cuda()
    model.load_state_dict(torch.load("x.pt"))
    """)


def test_a_load_with_a_constant_card_is_another_rule(check: Check) -> None:
    check(BOUND + 'model.load_state_dict(torch.load("x.pt", map_location="cuda:0"))  # DDP103')


@pytest.mark.parametrize(("default", "marker"), [("None", "# DDP104"), ('"cpu"', "")])
def test_a_mapping_from_an_option_is_its_default(check: Check, default: str, marker: str) -> None:
    check(
        BOUND
        + f"""
parser = argparse.ArgumentParser()
parser.add_argument("--map", default={default})
args = parser.parse_args()
model.load_state_dict(torch.load("x.pt", map_location=args.map))  {marker}
"""
    )


def test_no_repair_beside_options_that_may_hold_the_mapping(check: Check) -> None:
    found = check("""
    def load(path, **options):
        return torch.load(path, **options)  # DDP104

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = nn.Linear(1, 1).cuda()
    model.load_state_dict(load("x.pt"))
    model.load_state_dict(load("y.pt", map_location="cpu"))
    """)
    assert found["DDP104"].fix is None
