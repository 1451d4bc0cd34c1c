"""Functions: their arguments, defaults, closures, decorators, and the ways to call them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddpdoctor.lint import lint

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_arguments_are_followed_by_position_and_by_name(check: Check) -> None:
    check("""
    def place(x, device, *, more=None):
        torch.ones(1, device=device)
        torch.ones(1, device=more)

    dist.init_process_group("nccl")
    place(0, 1)  # DDP103
    place(0, device=2)  # DDP103
    place(more=3, x=0, device=None)  # DDP103
    """)


def test_a_default_argument_is_where_the_value_is_written(check: Check) -> None:
    check("""
    def place(x, device="cuda:0"):  # DDP103
        return x.to(device)

    dist.init_process_group("nccl")
    place(torch.ones(1), int(os.environ["LOCAL_RANK"]))
    place(torch.ones(1))
    """)


def test_a_default_that_no_call_takes_is_silent(check: Check) -> None:
    check("""
    def place(x, device="cuda:0"):
        return x.to(device)

    dist.init_process_group("nccl")
    place(torch.ones(1), int(os.environ["LOCAL_RANK"]))
    """)


def test_star_arguments_are_spread_and_gathered(check: Check) -> None:
    check("""
    def inner(x, device, extra):
        torch.ones(1, device=device)
        torch.ones(1, device=extra)

    def outer(*args, **kwargs):
        inner(*args, **kwargs)

    def first(*devices):
        torch.ones(1, device=devices[0])

    def named(**options):
        torch.ones(1, device=options["device"])

    dist.init_process_group("nccl")
    outer(0, 1, extra=2)  # DDP103
    pair = (0, 3)  # DDP103
    options = {"extra": 4}  # DDP103
    inner(*pair, **options)
    first(5, 6)  # DDP103
    named(device=7)  # DDP103
    """)


def test_arguments_that_cannot_be_followed_are_unknown(check: Check) -> None:
    check("""
    def place(device=0):
        torch.ones(1, device=device)

    dist.init_process_group("nccl")
    place(**json.loads(sys.argv[1]))
    place(*sys.argv[1:])
    """)


def test_a_function_returns_what_each_path_returns(check: Check) -> None:
    check("""
    def pick(how):
        if how == "global":
            return dist.get_rank()
        return 3  # DDP103

    dist.init_process_group("nccl")
    torch.ones(1, device=pick("global"))  # DDP203
    torch.ones(1, device=pick("constant"))
    """)


def test_several_results_are_unpacked(check: Check) -> None:
    check("""
    def setup():
        dist.init_process_group("nccl")
        return dist.get_rank(), 4, "x"  # DDP103

    rank, index, _ = setup()
    torch.ones(1, device=rank)  # DDP203
    torch.ones(1, device=index)
    first, *rest = [1, 5, 6]  # DDP103
    torch.ones(1, device=rest[-1])
    (a, b), c = (1, 7), 2  # DDP103
    torch.ones(1, device=b)
    """)


def test_closures_see_the_variables_around_them(check: Check) -> None:
    check("""
    def make(device):
        def place(x):
            return x.to(device)
        return place

    dist.init_process_group("nccl")
    make(2)(torch.ones(1))  # DDP103
    make(int(os.environ["LOCAL_RANK"]))(torch.ones(1))
    """)


def test_global_and_nonlocal_write_to_the_outer_scope(check: Check) -> None:
    check("""
    DEVICE = "cuda:0"
    OTHER = "cuda:1"  # DDP103

    def setup():
        global DEVICE
        index = 0
        def find():
            nonlocal index
            index = int(os.environ["LOCAL_RANK"])
        find()
        DEVICE = torch.device("cuda", index)
        OTHER = DEVICE

    dist.init_process_group("nccl")
    setup()
    torch.ones(1, device=DEVICE)
    torch.ones(1, device=OTHER)
    """)


def test_a_function_sees_globals_as_they_are_when_it_is_called(check: Check) -> None:
    check("""
    def place():
        torch.ones(1, device=DEVICE)

    dist.init_process_group("nccl")
    DEVICE = int(os.environ["LOCAL_RANK"])
    place()
    DEVICE = 3  # DDP103
    place()
    """)


def test_the_process_is_bound_in_another_function(check: Check) -> None:
    check("""
    def setup():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")

    def main():
        setup()
        torch.ones(1).cuda()

    main()
    """)


def test_what_no_call_reaches_is_silent(check: Check) -> None:
    check("""
    def debug():
        torch.ones(1).cuda()

    dist.init_process_group("nccl")
    """)


@pytest.mark.parametrize(
    "decorator",
    [
        "@functools.lru_cache",
        "@functools.lru_cache(maxsize=1)",
        "@torch.no_grad()",
        "@torch.compile",
        "@record",
        "@unknown.thing(1)",
        "@wrapped",
        "@configured('x')",
    ],
)
def test_a_decorated_function_still_does_its_work(check: Check, decorator: str) -> None:
    check(f"""
    import unknown
    from torch.distributed.elastic.multiprocessing.errors import record

    def wrapped(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    def configured(name):
        def decorate(function):
            return lambda *args: function(*args)
        return decorate

    {decorator}
    def pick(index):
        return index

    dist.init_process_group("nccl")
    torch.ones(1, device=pick(2))  # DDP103
    """)


def test_a_decorator_that_guards_by_rank_is_a_guard(check: Check) -> None:
    check("""
    def main_process_only(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if dist.get_rank() == 0:
                return function(*args, **kwargs)
        return wrapper

    @main_process_only
    def save():
        torch.ones(1, device=0)

    dist.init_process_group("nccl")
    save()
    """)


def test_a_decorator_may_bind_the_process(check: Check) -> None:
    check("""
    def distributed(function):
        def wrapper():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            function()
            dist.destroy_process_group()
        return wrapper

    @distributed
    def main():
        torch.ones(1).cuda()

    main()
    """)


@pytest.mark.parametrize(
    "call",
    [
        "functools.partial(place, device=2)(1)",
        "functools.partial(place, 1)(2)",
        "functools.partial(functools.partial(place, 1), 2)()",
        "(lambda device: place(1, device))(2)",
        "(lambda x=1, *, device=2: place(x, device))()",
        "{'place': place}['place'](1, 2)",
        "{'place': place}.get('place')(1, 2)",
        "[print, place][1](1, 2)",
        "getattr(functools, 'partial')(place, 1)(2)",
        "globals()['place'](1, 2)",
        "(place if True else print)(1, 2)",
        "list(map(functools.partial(place, 1), [2]))",
        "[place(1, d) for d in (2,)]",
        "{1: place(1, d) for d in (2,)}",
        "any(place(1, d) for d in (2,))",
        "place(*[1, 2])",
        "place(**dict(x=1, device=2))",
    ],
)
def test_the_ways_to_call_a_function(check: Check, call: str) -> None:
    check(f"""
    def place(x, device):
        torch.ones(1, device=device)

    dist.init_process_group("nccl")
    {call}  # DDP103
    """)


@pytest.mark.parametrize(
    "call",
    [
        "operator.methodcaller('cuda', 2)(x)",
        "getattr(x, 'cuda')(2)",
        "move = x.cuda; move(2)",
        "torch.Tensor.cuda(x, 2)",
        "list(map(lambda t: t.cuda(2), [x]))",
        "[t.cuda(2) for t in (x,)]",
        "x.float().unsqueeze(0).cuda(2)",
        "x.to(dtype=torch.half, device=2)",
        "x.to(2, non_blocking=True)",
        "x.to('cuda:2')",
        "x.to(torch.device('cuda', 2))",
        "x.to(torch.device(type='cuda', index=2))",
    ],
)
def test_the_ways_to_call_a_method(check: Check, call: str) -> None:
    check(f"""
    dist.init_process_group("nccl")
    x = torch.ones(1)
    {call}  # DDP103
    """)


def test_recursion_comes_to_an_end(check: Check) -> None:
    check("""
    def to_device(data, device):
        if isinstance(data, (list, tuple)):
            return [to_device(item, device) for item in data]
        if isinstance(data, dict):
            return {key: to_device(value, device) for key, value in data.items()}
        return data.to(device)

    dist.init_process_group("nccl")
    to_device([torch.ones(1), {"x": torch.ones(1)}], 2)  # DDP103
    """)


def test_endless_recursion_comes_to_an_end(check: Check) -> None:
    check("""
    def forever(x):
        return forever(x + 1)

    dist.init_process_group("nccl")
    forever(0)
    torch.ones(1, device=2)  # DDP103
    """)


def test_generators_are_run_by_who_takes_from_them(check: Check) -> None:
    check("""
    def batches(device):
        for _ in range(3):
            yield torch.ones(1, device=device), dist.get_rank()

    dist.init_process_group("nccl")
    for x, index in batches(2):  # DDP103
        x.to(index)  # DDP203
    """)


def test_coroutines_are_run_where_they_are_awaited(check: Check) -> None:
    check("""
    import asyncio

    async def place(device):
        torch.ones(1, device=device)
        return dist.get_rank()

    async def main():
        index = await place(2)  # DDP103
        torch.ones(1, device=index)  # DDP203

    dist.init_process_group("nccl")
    asyncio.run(main())
    """)


def test_a_main_guard_is_entered(check: Check) -> None:
    check("""
    def main():
        dist.init_process_group("nccl")
        torch.ones(1, device=2)  # DDP103

    if __name__ == "__main__":
        main()
    """)


def test_a_console_script_is_entered_by_its_sys_exit(check: Check) -> None:
    check("""
    def main(argv=None):
        dist.init_process_group("nccl")
        torch.ones(1, device=2)  # DDP103
        return 0

    if __name__ == "__main__":
        sys.exit(main())
    """)


def test_a_short_function_is_known_however_often_it_is_called(check: Check) -> None:
    often = "if is_main():\n    print('more')\n" * 60
    check(
        """
def rank():
    return dist.get_rank() if dist.is_initialized() else 0

def is_main():
    return rank() == 0

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
"""
        + often
        + """
if is_main():
    torch.zeros(4, device="cuda:0")
"""
    )


def test_a_long_function_costs_no_more_however_often_it_is_called(tmp_path: Path) -> None:
    """Each step calls the next one twice, which makes more calls than any machine could run."""
    steps = "".join(
        f"def step{n}(x):\n    x = x + {n}\n    step{n + 1}(x)\n    return step{n + 1}(x)\n"
        for n in range(40)
    )
    (tmp_path / "train.py").write_text(
        f"""
import torch
import torch.distributed as dist
def step40(x):
    return x.cuda()
{steps}
dist.init_process_group("nccl")
step0(torch.zeros(4))
"""
    )
    linted = lint([tmp_path / "train.py"])
    assert {finding.code for finding in linted.findings} >= {"DDP101"}
    assert linted.unfinished == ()


@pytest.mark.parametrize("call", ["Scale.apply(x)", "scale(x)"])
def test_a_function_of_autograd_runs_its_forward(check: Check, call: str) -> None:
    check(
        f"""
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * torch.ones(1, device="cuda:0")  # DDP103

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        scale = Scale.apply
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        x = torch.ones(1).cuda()
        {call}
        """
    )


def test_a_function_of_autograd_may_set_its_context_up_apart(check: Check) -> None:
    check(
        """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(x, device):
                return x * torch.ones(1, device=device)

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        Scale.apply(torch.ones(1).cuda(), "cuda:1")  # DDP103
        """
    )


def test_what_a_closure_reads_outlives_the_call_and_the_branch(check: Check) -> None:
    check("""
    def choose(index):
        device = f"cuda:{index}"
        return lambda: device

    class Placer:
        def __init__(self, index):
            device = f"cuda:{index}"
            def place():
                return device
            self.place = place

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if os.environ.get("CHOICE"):
        chosen, placer = choose(None), Placer(None)
    else:
        chosen = choose(0)  # DDP103
        placer = Placer(1)  # DDP103
    torch.ones(1, device=chosen())
    torch.ones(1, device=placer.place())
    """)


def test_a_function_that_ends_without_return_gives_none(check: Check) -> None:
    check("""
    def find():
        if os.path.exists("model.pt"):
            return "model.pt"
    dist.init_process_group("nccl")
    if find() is None:
        torch.ones(1, device=1)  # DDP103
    else:
        torch.ones(1, device=2)  # DDP103
    """)


@pytest.mark.parametrize("call", ["locals()", "vars()"])
def test_the_variables_of_a_function_as_a_dictionary(check: Check, call: str) -> None:
    check(f"""
    def train(config):
        torch.ones(1, device=config["device"])
        torch.ones(1, device=config["own"])
        config["device"] = "cpu"

    def run(seed=1, device="cuda:0", own=None):  # DDP103
        own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        config = {call}
        train(config)

    dist.init_process_group("nccl")
    run()
    """)


def test_what_exec_writes_into_a_dictionary_is_not_known(check: Check) -> None:
    check("""
    settings = {}
    exec(open("settings.py").read(), settings)
    if "single" not in settings:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device=settings.get("device", "cuda:0"))
    """)
