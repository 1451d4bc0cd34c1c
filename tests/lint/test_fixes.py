"""Repairs: the smallest edit that cures, in the program's own names, and nothing else changed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ddpdoctor.lint import fix, lint, repair

HEAD = """\
import os

import torch
import torch.distributed as dist
from torch import nn
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def fixed(path: Path, program: str | bytes, *, unsafe: bool = True) -> str:
    """The program after its repairs: it compiles, is clean, and a second run changes nothing."""
    data = program if isinstance(program, bytes) else textwrap.dedent(program).encode()
    path.write_bytes(data)
    assert lint([path]).findings, "the program has no defect to repair"
    repaired = fix([path], unsafe=unsafe)
    assert [finding.code for finding in repaired.linted.findings] == []
    assert repaired.refused == ()
    after = path.read_bytes()
    compile(after, str(path), "exec")
    assert repair([path], unsafe=True).after == {}
    return after.decode(errors="surrogateescape")


def added(path: Path, program: str) -> list[str]:
    """The lines that the repairs add to a program, all others staying as they are."""
    program = textwrap.dedent(program)
    before, after = program.splitlines(), fixed(path, program).splitlines()
    new = []
    for line in after:
        if before and line == before[0]:
            before.pop(0)
        else:
            new.append(line)
    assert before == []
    return new


# -- binding: one line before CUDA starts -------------------------------------------------------


def test_a_spawned_worker_is_bound_by_its_index(train: Path) -> None:
    assert added(
        train,
        """
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def worker(index, world):
            dist.init_process_group("nccl", rank=index, world_size=world)
            torch.ones(1).cuda()

        if __name__ == "__main__":
            mp.spawn(worker, nprocs=2, args=(2,))
        """,
    ) == ["    torch.cuda.set_device(index)"]


@pytest.mark.parametrize(
    ("setup", "rank"),
    [
        ('slot = int(os.environ["LOCAL_RANK"])', "slot"),
        ('ns = Holder()\nns.slot = int(os.environ["LOCAL_RANK"])', "ns.slot"),
        ('cfg = {"slot": int(os.environ["LOCAL_RANK"])}', 'cfg["slot"]'),
        ('card = torch.device("cuda", int(os.environ["LOCAL_RANK"]))', "card"),
        ("pass", 'int(os.environ.get("LOCAL_RANK", 0))'),
    ],
)
def test_the_local_rank_is_taken_from_where_the_program_has_it(
    train: Path, setup: str, rank: str
) -> None:
    program = f"{HEAD}\nclass Holder: pass\n\n{setup}\ndist.init_process_group('nccl')\n"
    assert added(train, program + "nn.Linear(1, 1).cuda()\n") == [f"torch.cuda.set_device({rank})"]


@pytest.mark.parametrize(
    ("imports", "line", "new_imports"),
    [
        (
            "import os\nimport torch as T",
            "T.cuda.set_device(int(os.environ.get('LOCAL_RANK', 0)))",
            [],
        ),
        ("import torch.cuda as tc, os", "tc.set_device(int(os.environ.get('LOCAL_RANK', 0)))", []),
        (
            "from os import environ\nfrom torch import cuda",
            "cuda.set_device(int(environ.get('LOCAL_RANK', 0)))",
            [],
        ),
        (
            "from torch.cuda import set_device",
            "set_device(int(os.environ.get('LOCAL_RANK', 0)))",
            ["import os", ""],
        ),
        (
            "import numpy",
            "torch.cuda.set_device(int(os.environ.get('LOCAL_RANK', 0)))",
            ["import os", "", "import torch"],
        ),
    ],
)
def test_torch_and_os_go_by_the_names_that_the_file_gives_them(
    train: Path, imports: str, line: str, new_imports: list[str]
) -> None:
    program = f"""
{imports}
import torch.distributed as dist
from torch.nn import Linear

dist.init_process_group("nccl")
Linear(1, 1).cuda()
"""
    assert added(train, program) == [*new_imports, line.replace("'", '"')]


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        ('"""About."""\nfrom __future__ import annotations\n', "{top}import os\n\n{rest}"),
        ("#!/usr/bin/env python\n# A licence.\n\n", "{top}import os\n\n{rest}"),
        ("import argparse\nimport sys\n\n", "import argparse\nimport os\nimport sys\n\n{rest}"),
        ("import sys\n\n", "import os\nimport sys\n\n{rest}"),
        ("from typing import Any\n\n", "import os\nfrom typing import Any\n\n{rest}"),
        (
            "import json\nfrom abc import (\n    ABC,\n)\n\n",
            "import json\nimport os\nfrom abc import (\n    ABC,\n)\n\n{rest}",
        ),
    ],
)
def test_an_import_goes_where_it_belongs(train: Path, top: str, expected: str) -> None:
    rest = "import torch\nimport torch.distributed as dist\n\n"
    body = 'dist.init_process_group("nccl")\ntorch.ones(1).cuda()\n'
    after = fixed(train, top + rest + body)
    assert after.startswith(expected.format(top=top, rest=rest))


def test_an_import_in_a_try_or_in_a_function_is_not_taken_for_one_of_the_file(train: Path) -> None:
    after = fixed(
        train,
        """\
        try:
            import os
        except ImportError:
            os = None
        import torch.distributed as dist


        def main():
            dist.init_process_group("nccl")
            import torch

            torch.ones(1).cuda()


        import sys

        main()
        """,
    )
    # `torch` is a local variable of main that has no value yet where the line goes.
    assert after.splitlines()[:4] == ["import os", "", "import torch", "try:"]
    assert "torch.cuda.set_device" not in after.split("def main")[0]


def test_the_binding_goes_before_an_earlier_use_in_the_same_function(train: Path) -> None:
    assert fixed(
        train,
        HEAD
        + """
def main():
    net = nn.Linear(1, 1)
    net = net.cuda()
    dist.init_process_group("nccl")
    torch.ones(1).cuda()


main()
""",
    ).split("\n")[7:10] == [
        "    net = nn.Linear(1, 1)",
        '    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))',
        "    net = net.cuda()",
    ]


def test_the_binding_goes_before_the_call_that_leads_to_an_earlier_use(train: Path) -> None:
    (train.parent / "nets.py").write_text(
        "from torch import nn\n\n\ndef make():\n    return nn.Linear(1, 1).cuda()\n"
    )
    after = fixed(
        train,
        HEAD
        + """
from nets import make


def main(slot):
    net = make()
    dist.init_process_group("nccl")
    return net


main(int(os.environ["LOCAL_RANK"]))
""",
    )
    assert "    torch.cuda.set_device(slot)\n    net = make()\n" in after


def test_a_binding_that_comes_too_late_is_moved_with_its_comment(train: Path) -> None:
    after = fixed(
        train,
        HEAD
        + """
slot = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
net = nn.Linear(1, 1).cuda()
torch.cuda.set_device(slot)  # our own
net.to(slot)
""",
    )
    assert after.endswith(
        """
slot = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(slot)  # our own
dist.init_process_group("nccl")
net = nn.Linear(1, 1).cuda()
net.to(slot)
"""
    )


def test_a_late_binding_stays_behind_what_it_needs(train: Path) -> None:
    after = fixed(
        train,
        HEAD
        + """
dist.init_process_group("nccl")
slot = dist.get_rank() % torch.cuda.device_count()
net = nn.Linear(1, 1).cuda()
torch.cuda.set_device(slot)
net.to(slot)
""",
    )
    assert "device_count()\ntorch.cuda.set_device(slot)\nnet = " in after
    assert after.count("set_device") == 1


@pytest.mark.parametrize(
    ("group", "on_cpu"),
    [
        ("dist.init_process_group(args.backend)", True),
        ('dist.init_process_group("nccl" if cuda else "gloo")', True),
        ('dist.init_process_group({True: "nccl", False: "gloo"}[cuda])', True),
        ("dist.init_process_group()", True),
        ("dist.init_process_group(backend=None)", True),
        ('dist.init_process_group("nccl")', False),
    ],
)
def test_a_group_that_can_open_on_the_cpu_keeps_doing_so(
    train: Path, group: str, on_cpu: bool
) -> None:
    program = f"""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="nccl")
args = parser.parse_args()
cuda = torch.cuda.is_available()
{group}
torch.ones(1).to("cuda" if cuda else "cpu")
"""
    bind = 'torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))'
    guarded = ["if torch.cuda.is_available():", f"    {bind}"]
    assert added(train, program) == (guarded if on_cpu else [bind])


def test_a_program_of_another_launcher_is_bound_by_its_variable(train: Path) -> None:
    program = f"""{HEAD}
dist.init_process_group(
    "nccl", rank=int(os.environ["SLURM_PROCID"]), world_size=int(os.environ["SLURM_NTASKS"])
)
nn.Linear(1, 1).cuda()
"""
    line = 'torch.cuda.set_device(int(os.environ.get("SLURM_LOCALID", 0)))'
    assert added(train, program) == [line]


@pytest.mark.parametrize(
    ("other", "variable"),
    [("pass", "SLURM_LOCALID"), ('dist.init_process_group("nccl")', "LOCAL_RANK")],
)
def test_a_launcher_counts_that_starts_every_process_group(
    train: Path, other: str, variable: str
) -> None:
    program = f"""{HEAD}
if int(os.environ.get("SLURM_NTASKS", 1)) > 1:
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    dist.init_process_group("nccl")
else:
    {other}
nn.Linear(1, 1).cuda()
"""
    line = f'    torch.cuda.set_device(int(os.environ.get("{variable}", 0)))'
    assert set(added(train, program)) == {line}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            'if ready: dist.init_process_group("nccl")\ntorch.ones(1).cuda()',
            'if ready: torch.cuda.set_device(slot); dist.init_process_group("nccl")',
        ),
        (
            'x = 1; dist.init_process_group("nccl"); torch.ones(1).cuda()',
            'x = 1; torch.cuda.set_device(slot); dist.init_process_group("nccl"); ',
        ),
        (
            'dist.init_process_group("nccl"); torch.ones(1).cuda()',
            'torch.cuda.set_device(slot)\ndist.init_process_group("nccl"); ',
        ),
        (
            'dist.init_process_group(\n    "nccl",\n)\ntorch.ones(1).cuda()',
            'torch.cuda.set_device(slot)\ndist.init_process_group(\n    "nccl",\n)',
        ),
        (
            'if not ready:\n    pass\nelif dist.init_process_group("nccl"):\n    pass\n'
            "torch.ones(1).cuda()",
            "torch.cuda.set_device(slot)\nif not ready:\n    pass\nelif dist",
        ),
        (
            'with open(os.devnull) as sink:\n\tdist.init_process_group("nccl")\n\tnn.ReLU().cuda()',
            "as sink:\n\ttorch.cuda.set_device(slot)\n\tdist",
        ),
        (
            'def outer():\n  def inner():\n    dist.init_process_group("nccl")\n  inner()\n'
            "outer()\ntorch.ones(1).cuda()",
            "torch.cuda.set_device(slot)\ndef outer():",
        ),
    ],
)
def test_the_line_fits_into_any_statement(train: Path, body: str, expected: str) -> None:
    after = fixed(train, f'{HEAD}\nready = True\nslot = int(os.environ["LOCAL_RANK"])\n{body}\n')
    assert expected in after


def test_the_line_goes_in_front_of_a_decorated_function_with_its_decorator(train: Path) -> None:
    after = fixed(
        train,
        HEAD
        + """
def opened(backend):
    dist.init_process_group(backend)
    return lambda function: function


@opened("nccl")
def main():
    torch.ones(1).cuda()


nn.Linear(1, 1).cuda()
main()
""",
    )
    assert after.count("torch.cuda.set_device") == 1


PLAIN = b"""\
import os

import torch
import torch.distributed as dist


def main(slot):
\tif slot >= 0:
\t    # the group
\t    dist.init_process_group("nccl")
\ttorch.ones(1).cuda()


main(int(os.environ["LOCAL_RANK"]))"""
LINE = b"\t    torch.cuda.set_device(slot)\n"
FORMATS = {
    "no last newline": PLAIN,
    "windows": PLAIN.replace(b"\n", b"\r\n"),
    "old Mac": PLAIN.replace(b"\n", b"\r"),
    "byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "declared encoding": b"# coding: latin-1\n# \xe9\n" + PLAIN + b"  # \xe9",
    "form feeds": PLAIN.replace(b"\n\n\n", b"\n\x0c\n\n"),
    "blanks at line ends": PLAIN.replace(b"\n", b" \n") + b"\n   \n\t\n",
    "odd separators": PLAIN + b"  # \xe2\x80\xa8 \x0b \xc2\x85\n",
}


@pytest.mark.parametrize("data", FORMATS.values(), ids=FORMATS.keys())
def test_all_else_stays_byte_for_byte(train: Path, data: bytes) -> None:
    fixed(train, data)
    after = train.read_bytes()
    end = b"\r\n" if b"\r\n" in data else b"\r" if b"\r" in data else b"\n"
    assert after.count(LINE.replace(b"\n", end)) == 1
    assert after.replace(LINE.replace(b"\n", end), b"") == data


# -- other repairs ------------------------------------------------------------------------------

RANK = 'int(os.environ.get("LOCAL_RANK", 0))'
BOUND = (
    HEAD + 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\n'
)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('nn.Linear(1, 1).to("cuda:0")', 'nn.Linear(1, 1).to("cuda")'),
        ("nn.Linear(1, 1).to('cuda:3')", "nn.Linear(1, 1).to('cuda')"),
        ("torch.ones(1).cuda(0)", f"torch.ones(1).cuda({RANK})"),
        (
            'card = torch.device("cuda", 1)\ntorch.ones(1, device=card)',
            f'card = torch.device("cuda", {RANK})\ntorch.ones(1, device=card)',
        ),
        (
            "def put(x, card=0):\n    return x.cuda(card)\n\nput(torch.ones(1))",
            f"def put(x, card={RANK}):\n    return x.cuda(card)\n\nput(torch.ones(1))",
        ),
        (
            "slot = int(os.environ['LOCAL_RANK'])\ntorch.ones(1).cuda(0)",
            "slot = int(os.environ['LOCAL_RANK'])\ntorch.ones(1).cuda(slot)",
        ),
        (
            "nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda(), device_ids=[0])",
            f"nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda(), device_ids=[{RANK}])",
        ),
        (
            "nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda(), device_ids=[0, 1])",
            f"nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda(), device_ids=[{RANK}])",
        ),
        (
            "torch.ones(1).cuda(dist.get_rank())",
            f"torch.ones(1).cuda({RANK})",
        ),
        (
            "rank = dist.get_rank()\ntorch.ones(1, device=f'cuda:{rank}')",
            "rank = dist.get_rank()\n"
            "torch.ones(1, device=f'cuda:{int(os.environ.get(\"LOCAL_RANK\", 0))}')",
        ),
        (
            "net = nn.Linear(1, 1).cuda()\nnet.load_state_dict(torch.load('x.pt'))",
            "net = nn.Linear(1, 1).cuda()\n"
            "net.load_state_dict(torch.load('x.pt', map_location=\"cpu\"))",
        ),
        (
            "net = nn.ReLU().cuda()\nnet.load_state_dict(torch.load(\n    ('x.pt'),  # ours\n))",
            "net = nn.ReLU().cuda()\nnet.load_state_dict(torch.load(\n"
            "    ('x.pt'), map_location=\"cpu\",  # ours\n))",
        ),
        (
            "net = nn.ReLU().cuda()\nnet.load_state_dict(torch.load('x.pt', map_location=None))",
            "net = nn.ReLU().cuda()\nnet.load_state_dict(torch.load('x.pt', map_location=\"cpu\"))",
        ),
        (
            "count = torch.tensor([1.0])\ndist.all_reduce(count)",
            'count = torch.tensor([1.0], device="cuda")\ndist.all_reduce(count)',
        ),
    ],
)
def test_a_value_is_written_anew_where_it_stands(train: Path, wrong: str, right: str) -> None:
    assert fixed(train, f"{BOUND}{wrong}\n") == f"{BOUND}{right}\n"


@pytest.mark.parametrize(
    ("device", "repaired"),
    [
        ("f'cuda:{rank}'", "f'cuda:{RANK}'"),
        ("f'cuda:{dist.get_rank()}'", "f'cuda:{RANK}'"),
        ("'cuda:%d' % rank", "'cuda:%d' % RANK"),
        ("'cuda:%d' % (rank,)", "'cuda:%d' % (RANK,)"),
        ("'cuda:{}'.format(rank)", "'cuda:{}'.format(RANK)"),
        ("'cuda:' + str(rank)", "'cuda:' + str(RANK)"),
        ("torch.device('cuda', rank)", "torch.device('cuda', RANK)"),
        ("torch.device('cuda:{}'.format(rank))", "torch.device('cuda:{}'.format(RANK))"),
        ("rank", "rank"),
    ],
)
def test_the_global_rank_is_replaced_where_the_device_is_made(
    train: Path, device: str, repaired: str
) -> None:
    program = HEAD + 'dist.init_process_group("nccl")\nrank = dist.get_rank()\n'
    program += f"device = {device}\ntorch.cuda.set_device(device)\nnn.ReLU().to(device)\n"
    after = program.replace(device, repaired.replace("RANK", RANK))
    if device == "rank":
        after = after.replace("(device)", f"({RANK})")
    assert fixed(train, program) == after


@pytest.mark.parametrize(
    ("option", "repaired"),
    [
        (
            'add_argument("--local_rank", type=int, default=-1)',
            'add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))',
        ),
        (
            'add_argument("--local_rank", type=int)',
            f'add_argument("--local_rank", type=int, default={RANK})',
        ),
        (
            'add_argument("--local_rank", type=int, required=True)',
            f'add_argument("--local_rank", type=int, required=False, default={RANK})',
        ),
        (
            'add_argument("--gpu", type=int, default=0)',
            f'add_argument("--gpu", type=int, default={RANK})',
        ),
    ],
)
def test_an_option_takes_its_default_from_the_launcher(
    train: Path, option: str, repaired: str
) -> None:
    program = f"""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.{option}
args = parser.parse_args()
torch.cuda.set_device(args.{option.split('"')[1][2:]})
dist.init_process_group("nccl")
torch.ones(1).cuda()
"""
    assert fixed(train, program) == program.replace(option, repaired)


@pytest.mark.parametrize(
    ("flag", "repaired"),
    [
        (
            'DEFINE_integer("local_rank", -1, "set by a launcher")',
            'DEFINE_integer("local_rank", int(os.environ.get("LOCAL_RANK", -1)), '
            '"set by a launcher")',
        ),
        (
            'DEFINE_integer("gpu", default=0, help="which")',
            f'DEFINE_integer("gpu", default={RANK}, help="which")',
        ),
    ],
)
def test_an_absl_flag_takes_its_default_from_the_launcher(
    train: Path, flag: str, repaired: str
) -> None:
    program = f"""
import os

import torch
import torch.distributed as dist
from absl import app, flags

flags.{flag}


def main(argv):
    torch.cuda.set_device(flags.FLAGS.{flag.split('"')[1]})
    dist.init_process_group("nccl")
    torch.ones(1).cuda()


app.run(main)
"""
    assert fixed(train, program) == program.replace(flag, repaired)


@pytest.mark.parametrize(
    ("attribute", "repaired"),
    [
        ("x = torch.ones(2)", 'self.register_buffer("x", torch.ones(2), persistent=False)'),
        (
            "x: torch.Tensor = torch.ones(2)",
            'self.register_buffer("x", torch.ones(2), persistent=False)',
        ),
        ('x = {"a": Part()}', 'self.x = nn.ModuleDict({"a": Part()})'),
        ("x = [Part(), Part()]", "self.x = nn.ModuleList([Part(), Part()])"),
    ],
)
def test_what_a_module_keeps_moves_with_it(train: Path, attribute: str, repaired: str) -> None:
    use = {"{": 'self.x["a"](x)', "[": "self.x[0](x)"}.get(
        attribute.split("= ")[1][0], "x + self.x"
    )
    program = (
        BOUND
        + f"""
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("y", torch.ones(2))

    def forward(self, x):
        return x + self.y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.{attribute}
        self.line = nn.Linear(2, 2)

    def forward(self, x):
        x = self.line(x)
        return {use}


net = nn.parallel.DistributedDataParallel(Net().cuda())
net(torch.ones(1, 2).cuda())
"""
    )
    assert fixed(train, program) == program.replace(f"self.{attribute}", repaired)


def test_a_device_is_asked_for_after_the_process_is_bound(train: Path) -> None:
    program = (
        HEAD
        + """
device = torch.device("cuda", torch.cuda.current_device())
slot = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(slot)
dist.init_process_group("nccl")
nn.Linear(1, 1).to(device)
"""
    )
    lines = added(train, program)
    assert lines == [f"torch.cuda.set_device({RANK})"]
    assert train.read_text().index(lines[0]) < train.read_text().index("device =")


# -- processes that the program starts, where no launcher sets LOCAL_RANK ------------------------

SPAWN = "mp.spawn(run, args=(2,), nprocs=2)"
PROCESSES = """\
started = [mp.get_context("spawn").Process(target=run, args=(i, 2)) for i in range(2)]
    [process.start() for process in started]"""
OWN_GPU = 'f"cuda:{local}"'


def spawning(device: str, ids: str, start: str) -> str:
    return f"""\
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
def run(local, n):
    dist.init_process_group("nccl", init_method="tcp://x:1", rank=local, world_size=n)
    dev = {device}
    m = DDP(torch.nn.Linear(2, 2).to(dev), device_ids=[{ids}])
    m(torch.randn(2, 2, device=dev)).sum().backward()
if __name__ == "__main__":
    {start}
"""


@pytest.mark.parametrize("start", [SPAWN, PROCESSES], ids=["spawn", "Process"])
@pytest.mark.parametrize(
    ("device", "ids", "repaired"),
    [
        ('torch.device("cuda:0")', "local", f"torch.device({OWN_GPU})"),
        ('torch.device("cuda:0")', "0", f"torch.device({OWN_GPU})"),
        ("torch.device('cuda', 0)", "0", "torch.device('cuda', local)"),
        (
            '"cuda:0" if torch.cuda.is_available() else "cpu"',
            "local",
            f'{OWN_GPU} if torch.cuda.is_available() else "cpu"',
        ),
    ],
)
def test_a_started_process_takes_the_number_it_was_given(
    train: Path, device: str, ids: str, repaired: str, start: str
) -> None:
    after = fixed(train, spawning(device, ids, start))
    assert after == spawning(repaired, "local", start)


TRAINER = """\
import torch, torch.distributed as dist, torch.multiprocessing as mp
class Trainer:
    def __init__(self):
        self.net = torch.nn.Linear(2, 2).cuda({index})
        self.dev = torch.device("{device}")
        self.net.to(self.dev)
def run(local, n):
    {first}
    dist.init_process_group("nccl", rank=local, world_size=n)
    Trainer()
if __name__ == "__main__":
    mp.spawn(run, args=(2,), nprocs=2)
"""


def test_a_started_process_that_is_bound_uses_its_current_device(train: Path) -> None:
    bound = "torch.cuda.set_device(local)"
    assert fixed(train, TRAINER.format(index=0, device="cuda:0", first=bound)) == TRAINER.format(
        index="torch.cuda.current_device()", device="cuda", first=bound
    )


def test_a_started_process_is_bound_for_an_object_without_its_number(train: Path) -> None:
    program = TRAINER.format(index="", device="cuda:0", first="pass")
    assert fixed(train, program) == program.replace(
        "    dist.init", "    torch.cuda.set_device(local)\n    dist.init"
    ).replace("cuda:0", "cuda")


def test_an_option_of_a_program_that_starts_its_ranks_is_left(train: Path) -> None:
    train.write_text(
        """
import argparse, torch, torch.distributed as dist, torch.multiprocessing as mp
def run(_, args):
    dist.init_process_group("nccl")
    torch.cuda.set_device(args.local_rank)
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    mp.spawn(run, args=(parser.parse_args(),), nprocs=2)
"""
    )
    assert "DDP204" in {finding.code for finding in lint([train]).findings}
    assert repair([train], unsafe=True).after == {}


@pytest.mark.parametrize(
    "use", ['torch.zeros(1, device="cuda:0")', "torch.zeros(1).cuda(0)", "torch.zeros(1).cuda()"]
)
def test_a_started_process_without_a_number_at_hand_is_left(train: Path, use: str) -> None:
    train.write_text(
        f"""
import torch, torch.distributed as dist, torch.multiprocessing as mp
def run(*_):
    dist.init_process_group("nccl")
    {use}
if __name__ == "__main__":
    mp.spawn(run, nprocs=2)
"""
    )
    assert lint([train]).findings
    assert repair([train], unsafe=True).after == {}


MPI = f"""{HEAD}
from mpi4py import MPI

comm = MPI.COMM_WORLD
os.environ["RANK"] = str(comm.Get_rank()){{local}}
dist.init_process_group("nccl", init_method="env://")
torch.ones(1).cuda()
"""


def test_a_process_that_mpi_numbers_has_no_local_rank_in_its_environment(train: Path) -> None:
    train.write_text(MPI.format(local=""))
    assert {finding.code for finding in lint([train]).findings} == {"DDP101", "DDP201"}
    assert repair([train], unsafe=True).after == {}


def test_a_process_that_mpi_numbers_may_write_its_local_rank_there(train: Path) -> None:
    program = MPI.format(local='\nos.environ["LOCAL_RANK"] = str(local_rank_of(comm))')
    assert added(train, program) == [f"torch.cuda.set_device({RANK})"]


@pytest.mark.parametrize("before", ["pass", "local = 0"])
def test_a_variable_that_has_its_value_later_is_not_used(train: Path, before: str) -> None:
    program = f"""{HEAD}
def main():
    {before}
    device = torch.device("cuda", 0)
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    nn.Linear(1, 1).to(device)

main()
"""
    assert fixed(train, program) == program.replace('"cuda", 0', f'"cuda", {RANK}')


def test_a_variable_of_distributed_runs_alone_is_not_used_in_others(train: Path) -> None:
    program = f"""{HEAD}
def main():
    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if distributed:
        dist.init_process_group("nccl")
        local = int(os.environ["LOCAL_RANK"])
    net = nn.Linear(1, 1).cuda()
    if distributed:
        net = nn.parallel.DistributedDataParallel(net, device_ids=[local])
    net(torch.ones(1).cuda(0))

main()
"""
    group = '        dist.init_process_group("nccl")'
    assert fixed(train, program) == program.replace("cuda(0)", f"cuda({RANK})").replace(
        group, f"        torch.cuda.set_device({RANK})\n{group}"
    )


def test_a_tensor_is_made_on_the_gpu_of_an_unbound_process(train: Path) -> None:
    program = f"""{HEAD}
slot = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
count = torch.ones(1)
dist.all_reduce(count)
dist.all_reduce(torch.ones(1))
"""
    assert fixed(train, program) == program.replace("ones(1)", "ones(1, device=slot)")


# -- where the line goes: before loops, and first in a thread -------------------------------------


def test_a_thread_is_bound_by_its_first_statement(train: Path) -> None:
    program = f"""import threading
{BOUND}
class Loader(threading.Thread):
    def __init__(self, slot):
        super().__init__()
        self.slot = slot

    def run(self):
        "Loads."
        for _ in range(3):
            torch.ones(1).cuda()


def work(count):
    while True:
        for _ in range(count):
            torch.ones(1).cuda()


Loader(int(os.environ["LOCAL_RANK"])).start()
threading.Thread(target=work, args=(2,)).start()
"""
    assert fixed(train, program) == program.replace(
        '        "Loads."\n', '        "Loads."\n        torch.cuda.set_device(self.slot)\n'
    ).replace("    while True", f"    torch.cuda.set_device({RANK})\n    while True")


def test_a_thread_that_runs_no_statement_of_its_own_is_left(train: Path) -> None:
    start = "import threading\nthreading.Thread(target={}).start()\n"
    train.write_text(BOUND + start.format("lambda: torch.ones(1).cuda()"))
    (finding,) = lint([train]).findings
    assert finding.fix is None
    put = "def put(x):\n    x.cuda()\n\n\n" + start.format("lambda: put(torch.ones(1))")
    assert fixed(train, BOUND + put) == BOUND + put.replace(
        "    x.", f"    torch.cuda.set_device({RANK})\n    x."
    )


def test_a_process_is_bound_before_the_loop_that_first_uses_cuda(train: Path) -> None:
    program = (
        HEAD
        + """
dist.init_process_group("nccl")
slot = int(os.environ["LOCAL_RANK"])
net = nn.Linear(4, 2)
for _ in range(5):
    net(torch.ones(3, 4).cuda())
"""
    )
    assert fixed(train, program) == program.replace(
        "net =", "torch.cuda.set_device(slot)\nnet =", 1
    )


def test_a_process_is_bound_before_a_loop_that_ends_with_its_group(train: Path) -> None:
    program = f"""{HEAD}
for _ in range(2):
    nn.Linear(1, 1).cuda()
dist.init_process_group("nccl")
"""
    assert fixed(train, program) == program.replace(
        "for _", f"torch.cuda.set_device({RANK})\nfor _"
    )


# -- rounds -------------------------------------------------------------------------------------


def test_safe_repairs_alone_leave_the_rest_and_say_so(train: Path) -> None:
    program = BOUND + "net = nn.Linear(1, 1).cuda(0)\nnet.load_state_dict(torch.load('x.pt'))\n"
    train.write_text(program)
    repaired = fix([train])
    assert [finding.code for finding in repaired.linted.findings] == ["DDP103"]
    assert repaired.repaired == 1
    assert train.read_text() == program.replace("'x.pt'", "'x.pt', map_location=\"cpu\"")


def test_device_ids_alone_are_not_repaired_for_a_module_on_another_gpu(train: Path) -> None:
    wrap = "nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda(0), device_ids=[0])\n"
    train.write_text(BOUND + wrap)
    assert repair([train], unsafe=False).after == {}
    assert fixed(train, BOUND + wrap) == BOUND + wrap.replace("0", RANK)


def test_findings_that_share_a_repair_get_it_once(train: Path) -> None:
    program = HEAD + 'dist.init_process_group("nccl")\n' + "nn.Linear(1, 1).cuda()\n" * 5
    train.write_text(program)
    assert len(lint([train]).findings) == 6
    repaired = fix([train])
    assert repaired.repaired == 6
    assert train.read_text().count("set_device") == 1


def test_repairs_on_one_line_wait_for_each_other(train: Path) -> None:
    after = fixed(
        train,
        BOUND
        + "wrap = nn.parallel.DistributedDataParallel\nwrap(nn.Linear(1, 1).cuda(0), [1], 1)\n",
    )
    assert after.endswith(f"wrap(nn.Linear(1, 1).cuda({RANK}), [{RANK}], {RANK})\n")


def test_equal_lines_are_all_repaired(train: Path) -> None:
    line = "net.load_state_dict(torch.load('x.pt'))\n"
    after = fixed(train, f"{BOUND}net = nn.Linear(1, 1).cuda()\n{line}{line}")
    assert after.count('map_location="cpu"') == 2


# -- numbers of GPUs under a mask -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "index"),
    [
        ('os.environ["CUDA_VISIBLE_DEVICES"].split(",")', "int(cards[args.gpu])"),
        ('os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")', "int(cards[args.gpu])"),
        ('[int(i) for i in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]', "cards[args.gpu]"),
        ("[4, 5, 6, 7]", "cards[args.gpu]"),
    ],
)
def test_the_number_of_an_entry_is_written_where_the_entry_is_picked(
    train: Path, cards: str, index: str
) -> None:
    program = HEAD + textwrap.dedent("""
        MASK
        args = argparse.Namespace(gpu=int(os.environ["LOCAL_RANK"]))
        cards = CARDS
        gpu = INDEX
        torch.cuda.set_device(gpu)
        dist.init_process_group("nccl")
        model = nn.Linear(2, 2).cuda(gpu)
    """).replace("CARDS", cards)
    mask = 'os.environ["CUDA_VISIBLE_DEVICES"] = "4,5,6,7"' if cards.startswith("[4") else ""
    program = program.replace("MASK", mask)
    program = "import argparse\n" + program
    repaired = fixed(train, program.replace("INDEX", index))
    assert repaired == program.replace("INDEX", "args.gpu")


@pytest.mark.parametrize(
    ("keywords", "repaired"),
    [
        (
            '{"device_map": "auto", "cache": False}',
            '{"device_map": {"": local_rank}, "cache": False}',
        ),
        ('dict(device_map="balanced")', 'dict(device_map={"": local_rank})'),
    ],
)
def test_a_device_map_among_the_keywords_of_a_call(
    train: Path, keywords: str, repaired: str
) -> None:
    program = HEAD + (
        "from transformers import AutoModel\n"
        'local_rank = int(os.environ["LOCAL_RANK"])\n'
        "torch.cuda.set_device(local_rank)\n"
        'dist.init_process_group("nccl")\n'
        f"keywords = {keywords}\n"
        'model = AutoModel.from_pretrained("a", **keywords)\n'
    )
    assert fixed(train, program) == program.replace(keywords, repaired)
