"""Conditions: decided where rank k knows them, remembered where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

FLAG = """
parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--gpus", type=int, default=1)
args = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
"""


def test_two_branches_on_one_flag_are_taken_together(check: Check) -> None:
    check(
        FLAG
        + """
if args.distributed:
    torch.cuda.set_device(local_rank)
x = torch.ones(1)
if args.distributed:
    dist.init_process_group("nccl")
x.cuda()
"""
    )


def test_a_flag_and_its_negation_exclude_each_other(check: Check) -> None:
    check(
        FLAG
        + """
if not args.distributed:
    torch.cuda.set_device(local_rank)
if args.distributed:
    dist.init_process_group("nccl")  # DDP201
torch.ones(1).cuda()  # DDP101
"""
    )


@pytest.mark.parametrize("condition", ["args.gpus > 1", "1 < args.gpus", "not args.gpus <= 1"])
def test_one_question_in_several_spellings_has_one_answer(check: Check, condition: str) -> None:
    check(
        FLAG
        + f"""
device = "cuda:0"
if args.gpus > 1:
    dist.init_process_group("nccl")
if {condition}:
    device = f"cuda:{{local_rank}}"
torch.ones(1, device=device)
"""
    )


def test_a_flag_kept_in_a_variable_remembers_its_condition(check: Check) -> None:
    check(
        FLAG
        + """
distributed = args.gpus > 1
if distributed:
    dist.init_process_group("nccl")
torch.ones(1, device=local_rank if distributed else 0)
torch.ones(1, device=0 if distributed else local_rank)  # DDP103
"""
    )


def test_the_world_size_is_more_than_one(check: Check) -> None:
    check("""
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    device = 0
    if world_size > 1:
        dist.init_process_group("nccl")
        device = int(os.environ["LOCAL_RANK"])
    torch.ones(1, device=device)
    if world_size == 1:
        torch.ones(1, device=0)
    """)


@pytest.mark.parametrize(
    "guard",
    [
        "dist.get_rank() == 0",
        "not dist.get_rank()",
        'int(os.environ["RANK"]) == 0',
        'os.environ["LOCAL_RANK"] == "0"',
        "rank < 1",
        "rank in [0]",
        "not rank > 0",
        "rank == 0 and flag",
        "is_main()",
    ],
)
def test_what_only_rank_zero_does_is_not_run(check: Check, guard: str) -> None:
    check(f"""
    def is_main():
        return not dist.is_initialized() or dist.get_rank() == 0

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    flag = len(sys.argv) > 1
    if {guard}:
        torch.ones(1, device="cuda:0")
    else:
        torch.ones(1, device="cuda:1")  # DDP103
    """)


def test_a_guard_by_early_return_stands_in_the_caller(check: Check) -> None:
    check("""
    def save(rank):
        if rank != 0:
            return
        torch.ones(1, device=0)

    def evaluate():
        torch.ones(1, device=0)

    def main():
        dist.init_process_group("nccl")
        save(dist.get_rank())
        if dist.get_rank() > 0:
            return
        evaluate()

    main()
    """)


def test_after_an_early_return_the_rest_is_run_on_the_other_path(check: Check) -> None:
    check(
        FLAG
        + """
def pick():
    if not args.distributed:
        return "cuda:0"
    dist.init_process_group("nccl")
    return local_rank

torch.ones(1, device=pick())
"""
    )


def test_a_return_deep_in_loops_and_conditions_ends_the_function(check: Check) -> None:
    check(
        FLAG
        + """
def pick(names):
    for name in names:
        with open(name) as file:
            if args.distributed:
                if file:
                    return local_rank
    return 0  # DDP103

if args.distributed:
    dist.init_process_group("nccl")
    torch.ones(1, device=pick(["a"]))
    torch.ones(1, device=pick([]))
"""
    )


def test_a_function_that_may_end_the_program_leaves_the_other_path(check: Check) -> None:
    check(
        FLAG
        + """
if not args.distributed:
    sys.exit("distributed only")
dist.init_process_group("nccl")
torch.ones(1, device=0 if not args.distributed else local_rank)
"""
    )


def test_what_stands_behind_a_raise_or_exit_is_not_run(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    def stop():
        raise SystemExit
    if dist.get_world_size() > 1:
        stop()
    torch.ones(1, device=0)
    """)


def test_an_assertion_is_taken_to_hold(check: Check) -> None:
    check(
        FLAG
        + """
assert args.distributed
dist.init_process_group("nccl")
torch.ones(1, device=local_rank if args.distributed else 0)
"""
    )


def test_and_and_or_give_their_operands(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.ones(1, device=None or 2)  # DDP103
    torch.ones(1, device=rank and 3)  # DDP103
    torch.ones(1, device=0 or rank)  # DDP203
    torch.ones(1, device=rank or 0)  # DDP203
    """)


def test_only_none_is_none(check: Check) -> None:
    check("""
    def place(device=None):
        if device is None:
            device = 3  # DDP103
        torch.ones(1, device=device)  # DDP203

    dist.init_process_group("nccl")
    place(dist.get_rank() + 0)
    place(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    place()
    """)


def test_a_value_that_is_not_known_takes_both_sides(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    if os.path.exists("big.pt"):
        torch.ones(1, device=1)  # DDP103
    else:
        torch.ones(1, device=2)  # DDP103
    device = 0 if os.path.exists("small.pt") else dist.get_rank()
    torch.ones(1, device=device)
    """)


def test_what_a_library_holds_may_be_anything(check: Check) -> None:
    check("""
    from somewhere import Engine
    engine, args = Engine(), argparse.ArgumentParser().parse_args()
    dist.init_process_group("nccl")
    if engine.mode is None:
        torch.ones(1, device=1)  # DDP103
    elif engine.state.epoch == 3:
        torch.ones(1, device=2)  # DDP103
    if not engine.ready:
        torch.ones(1, device=3)  # DDP103
    device = 4 if args.cpu else dist.get_rank()
    if not args.cpu:
        torch.ones(1, device=device % torch.cuda.device_count())
    """)


def test_a_tensor_may_be_false_and_equal_a_number(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    loss = torch.ones(1, device=int(os.environ["LOCAL_RANK"]))
    if not torch.isnan(loss):
        torch.ones(1, device=1)  # DDP103
    if loss == 0:
        torch.ones(1, device=2)  # DDP103
    if loss is None:
        torch.ones(1, device=3)
    """)


def test_a_walrus_binds_in_the_condition(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    if (index := 2) > 1:  # DDP103
        torch.ones(1, device=index)
    """)


def test_match_takes_the_case_that_fits(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    match "nccl":
        case "gloo":
            torch.ones(1, device=1)
        case "mpi" | "nccl":
            torch.ones(1, device=2)  # DDP103
        case _:
            torch.ones(1, device=3)
    match dist.get_rank():
        case 0:
            torch.ones(1, device=4)
        case rank if rank is None:
            torch.ones(1, device=5)
        case rank:
            torch.ones(1, device=rank)  # DDP203
    match None:
        case None:
            torch.ones(1, device=6)  # DDP103
    """)


def test_match_binds_parts_of_a_sequence_or_mapping(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    match ("cuda", dist.get_rank()):
        case (kind, index):
            torch.ones(1, device=torch.device(kind, index))  # DDP203
    match {"gpu": 2}:  # DDP103
        case {"gpu": gpu}:
            torch.ones(1, device=gpu)
    """)


def test_a_cuda_check_is_taken_to_succeed(check: Check) -> None:
    check("""
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")  # DDP103
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.ones(1, device=device)
    if not torch.cuda.is_available():
        torch.ones(1, device="cuda:1")
    """)


def test_the_backend_decides_too(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="nccl")
    args = parser.parse_args()
    dist.init_process_group(args.backend)
    if args.backend == "gloo":
        device = torch.device("cpu")
    else:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.ones(1, device=device)
    """)


def test_whether_a_launcher_started_the_program_is_known(check: Check) -> None:
    check("""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        gpu = int(os.environ["LOCAL_RANK"])
    elif "SLURM_PROCID" in os.environ:
        gpu = int(os.environ["SLURM_PROCID"]) % torch.cuda.device_count()
    else:
        gpu = 0
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl")
    torch.ones(1).cuda()
    """)


@pytest.mark.parametrize(
    ("make", "write", "read"),
    [
        ("argparse.Namespace(ids=[0])", "held.ids = [local_rank]", "held.ids[0]"),
        ("argparse.Namespace(ids=[0])", "setattr(held, 'ids', [local_rank])", "held.ids[0]"),
        ("dict(gpu=0)", "held['gpu'] = local_rank", "held['gpu']"),
        ("[0, 0]", "held[1] = local_rank", "held[1]"),
    ],
)
def test_a_write_to_one_of_two_objects(check: Check, make: str, write: str, read: str) -> None:
    check(
        FLAG
        + f"""
held = {make}
if args.gpus > 4:
    held = {make}
{write}
torch.cuda.set_device({read})
dist.init_process_group("nccl")
torch.ones(1).cuda()
"""
    )


def test_a_write_to_one_of_two_objects_leaves_the_other(check: Check) -> None:
    check(
        FLAG
        + """
first, second = argparse.Namespace(gpu=0), argparse.Namespace(gpu=0)  # DDP103
held = first if args.distributed else second
held.gpu = local_rank
dist.init_process_group("nccl")
if args.distributed:
    torch.cuda.set_device(first.gpu)
    torch.ones(1).cuda()
else:
    torch.cuda.set_device(first.gpu)
"""
    )


MODES = """
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="single")
parser.add_argument("--size", type=int, default=1)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    "starts",
    [
        'args.mode == "ddp"',
        'args.mode in ("ddp", "fsdp")',
        'args.mode in {"ddp", "fsdp"} or args.mode == "lightning" and len(sys.argv) > 1',
        'args.mode == "ddp" or args.mode == "fsdp" or args.mode == "horovod"',
        'args.mode != "single" and args.mode in ("ddp", "single")',
    ],
)
@pytest.mark.parametrize(
    "alone",
    ['args.mode == "single"', "args.mode is None", "not args.mode", 'args.mode in ("", "x")'],
)
def test_what_is_one_thing_is_not_another(check: Check, starts: str, alone: str) -> None:
    check(f"""{MODES}
use_ddp = {starts}
if use_ddp:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if {alone}:
    torch.ones(1, device="cuda:0")
if use_ddp:
    if {alone}:
        torch.ones(1, device="cuda:0")
device = "cuda:0" if {alone} else int(os.environ["LOCAL_RANK"])
if use_ddp:
    torch.ones(1, device=device)
""")


def test_a_number_that_is_known_is_compared(check: Check) -> None:
    check(f"""{MODES}
if args.size == 4:
    dist.init_process_group("nccl", world_size=args.size)
if args.size > 1:
    torch.ones(1, device="cuda:0")  # DDP103
if args.size <= 1:
    torch.ones(1, device="cuda:0")
if not args.size >= 4:
    torch.ones(1, device="cuda:0")
""")


def test_what_may_be_the_same_thing_is_a_path(check: Check) -> None:
    check(f"""{MODES}
if args.mode in ("ddp", "fsdp"):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if args.mode == "fsdp":
    torch.ones(1, device="cuda:0")  # DDP103
if args.mode != "single":
    torch.ones(1, device="cuda:0")  # DDP103
if args.mode in ("fsdp", "single"):
    torch.ones(1, device="cuda:0")  # DDP103
""")


@pytest.mark.parametrize(
    "chosen",
    [
        '{"single": "cuda:0", "ddp": "cuda"}[args.mode]',
        '{"single": "cuda:0", None: "cuda:0"}.get(args.mode, "cuda")',
    ],
)
@pytest.mark.parametrize("starts", ['args.mode == "ddp"', 'args.mode in ("ddp", "fsdp")'])
def test_what_is_looked_up_by_an_option_goes_with_the_questions_about_it(
    check: Check, starts: str, chosen: str
) -> None:
    check(f"""{MODES}
if {starts}:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.ones(1, device={chosen})
""")


def test_a_choice_is_the_same_in_small_letters(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launcher", default="None")
    parser.add_argument("--device", default=" CUDA:1 ")  # DDP103
    args = parser.parse_args()
    if args.launcher == "none":
        args.distributed = False
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    if args.launcher.lower() == "none":
        torch.ones(1).cuda(0)
    else:
        torch.ones(1).cuda(1)  # DDP103
        torch.ones(1).to(args.device.strip().lower())
    """)


BOUND = (
    FLAG
    + """
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
name = next(iter(sys.argv))
model = nn.Linear(1, 1).cuda()
"""
)


@pytest.mark.parametrize(
    "program",
    [
        """
state = {}
if args.distributed:
    state[name] = torch.load("a.pt")
    sys.exit()
model.load_state_dict(state)
        """,
        """
state = {}
if args.distributed:
    state[name] = torch.load("a.pt")
else:
    model.load_state_dict(state)
        """,
        """
state = {}
for name in sys.argv:
    if args.distributed:
        state[name] = torch.load("a.pt")  # DDP104
model.load_state_dict(state)
        """,
        """
if len(sys.argv) > 2:
    state = torch.load("a.pt", map_location="cpu")
else:
    state = torch.load("a.pt")  # DDP104
model.load_state_dict(state)
        """,
        """
state = {}
state.setdefault(name, 1)
if "gpu" in state:
    torch.ones(1).to("cuda:0")  # DDP103
        """,
        """
state = {}
if args.distributed:
    state[name] = 1
    raise SystemExit
if "gpu" in state:
    torch.ones(1).to("cuda:0")
        """,
        """
state = {}
if args.distributed:
    state.update(json.load(open(name)))
    raise SystemExit
if "gpu" in state:
    torch.ones(1).to("cuda:0")
        """,
    ],
)
def test_what_one_side_puts_into_a_dictionary_stays_on_its_side(check: Check, program: str) -> None:
    check(BOUND + program)


def test_a_list_that_gets_more_on_one_side_is_not_surely_that_long(check: Check) -> None:
    check(
        BOUND
        + """
ids = [local_rank]
if args.distributed:
    ids.append(local_rank + 1)
DDP(model, device_ids=ids)
"""
    )


def test_a_list_that_gets_unknown_items_is_not_surely_empty(check: Check) -> None:
    check(
        BOUND
        + """
ids = []
ids.extend(name.split(","))
if ids:
    torch.ones(1).to("cuda:0")  # DDP103
"""
    )


def test_all_functions_of_a_list_are_called_that_may_have_more(check: Check) -> None:
    check(
        BOUND
        + """
def first():
    torch.ones(1).to("cuda:0")  # DDP103

def second():
    torch.ones(1).to("cuda:1")  # DDP103

hooks = [first, second]
hooks.extend(name)
for hook in hooks:
    hook()
"""
    )


HELPER = {
    "helper.py": """
import torch
import torch.distributed as dist

def start(rank):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=4)
    torch.ones(1).to("cuda:0")  # DDP103
"""
}


def test_a_module_is_imported_on_both_sides(check: Check) -> None:
    check(
        """
def work(rank):
    from helper import start
    start(rank)

if len(sys.argv) > 2:
    from helper import start
    start(0)
else:
    mp.spawn(work, nprocs=4)
""",
        HELPER,
    )


def test_a_module_is_imported_in_the_parent_after_a_process_did(check: Check) -> None:
    check(
        """
def ask():
    import helper

mp.Process(target=ask).start()
from helper import start
mp.spawn(start, nprocs=4)
""",
        HELPER,
    )


@pytest.mark.parametrize(
    ("condition", "marker"),
    [
        ('torch.__version__ == "1.8.0"', "  # DDP103"),
        ('torch.__version__ != "1.8.0"', "  # DDP103"),
        ('dist.Backend.NCCL == "nccl"', "  # DDP103"),
        ("nn.SyncBatchNorm is None", ""),
        ("nn.SyncBatchNorm == None", ""),
    ],
)
def test_what_a_library_holds_may_be_any_constant_but_none(
    check: Check, condition: str, marker: str
) -> None:
    check(f"""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if {condition}:
        torch.ones(2).to("cuda:0"){marker}
    """)


def test_two_versions_of_a_library_exclude_each_other(check: Check) -> None:
    check("""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda:0") if torch.__version__ == "1.8.0" else torch.device("cuda")
    dist.init_process_group("nccl")
    if torch.__version__ == "1.9.0":
        torch.ones(2).to(device)
    """)


def test_a_list_that_is_filled_on_some_paths_may_be_empty(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    problems, sure, last = [], [], []
    for name in ["a", "b"]:
        if os.path.exists(name):
            problems.append(name)
    if problems:
        torch.ones(1, device=1)  # DDP103
        raise ValueError(problems)
    torch.ones(1, device=2)  # DDP103
    if os.path.exists("c"):
        sure.append(1)
    sure.append(2)
    if not sure:
        torch.ones(1, device=3)
    if os.path.exists("d"):
        last.append(1)
    last.insert(0, 2)
    if not last:
        torch.ones(1, device=4)
    """)


def test_whether_a_list_has_items_goes_with_the_condition_that_fills_it(check: Check) -> None:
    check(
        FLAG
        + """
gpus = []
if args.distributed:
    dist.init_process_group("nccl")
    gpus.append(local_rank)
if not gpus:
    torch.ones(1, device=0)
if gpus:
    torch.ones(1, device=1)  # DDP103
if args.other:
    gpus.append(1)
else:
    gpus.append(2)
if not gpus:
    torch.ones(1, device=2)
"""
    )
