"""Loops: known items one by one, unknown ones once; break, continue and else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

FLAG = """
parser = argparse.ArgumentParser()
parser.add_argument("--stop", action="store_true")
stop = parser.parse_args().stop
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for index in [1]:",
        "for index in (1,):",
        "for _, index in enumerate([1]):",
        "for index, _ in zip([1], [5]):",
        "for index in reversed([1]):",
        "for index in sorted([1]):",
        "for index in {1: 0}.keys() and [1]:",
        "for (index, _), __ in [((1, 2), 3)]:",
        "for index in (i for i in [1]):",
        "for index in list(map(int, [1])):",
        "for index in iter([1]):",
        "for index in [0, 1][1:]:",
    ],
)
def test_the_items_of_many_iterables(check: Check, loop: str) -> None:
    check(
        FLAG
        + f"""
{loop}  # DDP103
    torch.ones(1, device=index)
"""
    )


def test_a_loop_over_unknown_items_runs_its_body(check: Check) -> None:
    check(
        FLAG
        + """
for x, y in unknown():
    x.to("cuda:1")  # DDP103
while not done():
    torch.ones(1, device=2)  # DDP103
"""
    )


@pytest.mark.parametrize(
    "loop",
    [
        "for index in Indices():",
        "for _, index in enumerate(Indices()):",
        "for index, _ in zip(Indices(), range(9)):",
        "for index in [next(iter(Indices()))]:",
    ],
)
def test_the_items_of_an_iterable_class(check: Check, loop: str) -> None:
    check(
        FLAG
        + f"""
class Indices:
    def __iter__(self):
        torch.cuda.set_device(1)  # DDP103
        yield 1  # DDP103
{loop}
    torch.ones(1, device=index)
"""
    )


def test_a_loop_over_nothing_does_not_run(check: Check) -> None:
    check(
        FLAG
        + """
for x in []:
    torch.ones(1, device=1)
while False:
    torch.ones(1, device=2)
while 0:
    torch.ones(1, device=3)
"""
    )


def test_break_ends_the_loop_and_skips_else(check: Check) -> None:
    check(
        FLAG
        + """
for index in [1, 2]:  # DDP103
    if index == 2:
        break
    torch.ones(1, device=index)
else:
    torch.ones(1, device=5)
for index in [3]:
    pass
else:
    torch.ones(1, device=6)  # DDP103
while True:
    break
    torch.ones(1, device=7)
"""
    )


def test_continue_goes_to_the_next_item(check: Check) -> None:
    check(
        FLAG
        + """
for index in [1, 2]:  # DDP103
    if index == 1:
        continue
        torch.ones(1, device=5)
    torch.ones(1, device=index)
torch.ones(1, device=index)
"""
    )


def test_a_break_that_may_happen_leaves_both_ways(check: Check) -> None:
    check(
        FLAG
        + """
device = int(os.environ["LOCAL_RANK"])
for index in [1, 2]:
    if stop:
        device = 3
        break
torch.ones(1, device=device)
torch.ones(1, device=device if not stop else 4)
"""
    )


def test_a_return_in_a_loop_is_the_functions(check: Check) -> None:
    check(
        FLAG
        + """
def first(devices):
    for device in devices:
        if device is not None:
            return device
    return 3  # DDP103

torch.ones(1, device=first([None, 2]))  # DDP103
torch.ones(1, device=first([None]))
torch.ones(1, device=first([]))
"""
    )


def test_what_a_loop_builds_up(check: Check) -> None:
    check(
        FLAG
        + """
devices = []
for index in [1, 2]:  # DDP103
    devices.append(index)
torch.ones(1, device=devices[0])
total = 0  # DDP103
for step in range(3):
    total += 1
torch.ones(1, device=total)
"""
    )


def test_a_variable_of_a_loop_over_unknown_items_may_keep_its_first_value(check: Check) -> None:
    check(
        FLAG
        + """
device = 2
for line in open("x"):
    device = int(line)
torch.ones(1, device=device)
"""
    )


def test_comprehensions_have_a_scope_of_their_own(check: Check) -> None:
    check(
        FLAG
        + """
index = 2  # DDP103
places = [index for index in [5]]
torch.ones(1, device=index)
kept = [i for i in [1, 3] if i > 1]  # DDP103
torch.ones(1, device=kept[0])
nested = [j for i in [[1], [4]] for j in i]  # DDP103
torch.ones(1, device=nested[1])
"""
    )


def test_a_training_loop_of_a_bound_process(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = DDP(nn.Linear(1, 1).cuda())
    for epoch in range(100):
        for step, (x, y) in enumerate(loader):
            loss = (model(x.cuda()) - y.cuda(non_blocking=True)).sum()
            loss.backward()
            if step > 10:
                break
        else:
            continue
        if epoch == 3:
            return_now = True
    """)


OPTIONS = "\n".join(f"""parser.add_argument("--option{n}", default={n})""" for n in range(20))


@pytest.mark.parametrize(
    "copy",
    [
        "for name, value in vars(args).items():\n    setattr(held, name, value)",
        "for name in vars(args):\n    setattr(held, name, getattr(args, name))",
        "for name in args.__dict__.keys():\n    setattr(held, name, vars(args)[name])",
        "for name, value in sorted(vars(args).items()):\n    setattr(held, name, value)",
        "for name in sorted(list(vars(args))):\n    setattr(held, name, getattr(args, name))",
        "for name, value in vars(args).items():\n    if name == 'seed':\n        continue\n"
        "    setattr(held, name, value)",
        "vars(args)[args.option3] = 1\nfor name, value in vars(args).items():\n"
        "    setattr(held, name, value)",
        "held = argparse.Namespace(**{name: value for name, value in vars(args).items()})",
    ],
)
def test_a_loop_that_copies_many_options(check: Check, copy: str) -> None:
    check(
        f"""
parser = argparse.ArgumentParser()
{OPTIONS}
args = parser.parse_args()
dist.init_process_group("nccl")
args.gpu = dist.get_rank()
held = argparse.Namespace()
{copy}
torch.cuda.set_device(held.gpu)  # DDP203
"""
    )


def test_an_option_that_has_a_default_is_not_none(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--node", type=int)
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    if args.gpu is not None:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    if args.node is None:
        torch.ones(1).cuda(0)  # DDP103
    """)


def test_a_search_that_may_find_nothing_goes_on_behind_the_loop(check: Check) -> None:
    check(
        FLAG
        + """
def has_one(items):
    for item in items:
        if item.fits:
            return True
    return False
def first(items):
    for item in items:
        if item.fits:
            break
    torch.ones(1, device=1)  # DDP103
if has_one(unknown()):
    raise SystemExit
first(unknown())
torch.ones(1, device=2)  # DDP103
"""
    )


NUMBERED = """
dist.init_process_group("nccl")
for epoch in range(100):
    if epoch > 0:
        torch.ones(1, device=1)  # DDP103
    if (epoch + 1) % 10 == 0:
        torch.ones(1, device=2)  # DDP103
for step, (epoch, batch) in enumerate(zip(range(100), unknown())):
    if epoch == 3 or step == 4:
        torch.ones(1, device=3)  # DDP103
for number in [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]:
    if number != 4:
        torch.ones(1, device=4)  # DDP103
for number in (n for n in [5]):
    if number != 5:
        torch.ones(1, device=5)
"""


def test_the_number_of_a_round_is_any_of_many(check: Check) -> None:
    check(NUMBERED)


@pytest.mark.parametrize("loop", ["for batch in unknown():", "while True:", "while step < 1000:"])
@pytest.mark.parametrize("step", ["step", "state.step"])
@pytest.mark.parametrize("count", ["{0} += 1", "{0} = {0} + 1"])
def test_what_a_loop_counts_is_any_number_in_it(
    check: Check, loop: str, step: str, count: str
) -> None:
    check(
        f"""
    dist.init_process_group("nccl")
    state = argparse.Namespace(step=0)
    step = 0
    {loop}
        if {step} % 10 == 9:
            torch.ones(1, device=1)  # DDP103
        {count.format(step)}
        if {step} == 7:
            torch.ones(1, device=2)  # DDP103
    """
    )


def test_a_loop_over_known_items_counts_exactly(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    step = 0
    for _ in range(3):
        step += 1
        if step == 4:
            torch.ones(1, device=1)
    """)


def test_what_an_object_counts_is_any_number_once_it_is_made(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    class Base:
        def __init__(self):
            self.steps, self.fixed = 0, 0
    class Trainer(Base):
        def step(self):
            if self.steps == 3:
                torch.ones(1, device=1)  # DDP103
            if self.fixed == 3:
                torch.ones(1, device=2)
            self.steps += 1
    Trainer().step()
    """)


def test_a_list_that_a_loop_fills_may_have_any_length(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    found, once = [], []
    for batch in unknown():
        here = []
        here.append(batch)
        found.append(batch)
        if len(here) == 2:
            torch.ones(1, device=1)
    once.append(1)
    if len(found) == 2:
        torch.ones(1, device=2)  # DDP103
    if len(once) == 2:
        torch.ones(1, device=3)
    """)
