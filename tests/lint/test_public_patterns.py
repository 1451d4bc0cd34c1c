"""The ways in which public training programs are right, each of them clean."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_mask_from_the_command_line_beside_a_local_rank(check: Check) -> None:
    """--device may set a mask, and a launcher's ranks take their index from LOCAL_RANK."""
    check(
        """
        RANK = int(os.getenv("LOCAL_RANK", -1))

        def choose(wanted):
            wanted = str(wanted).strip().lower().replace("cuda:", "")
            if wanted == "cpu":
                os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
            elif wanted:
                os.environ["CUDA_VISIBLE_DEVICES"] = wanted
            if wanted != "cpu" and torch.cuda.is_available():
                return torch.device("cuda:0")
            return torch.device("cpu")

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--device", default="")
            options = parser.parse_args()
            device = choose(options.device)
            if RANK != -1:
                torch.cuda.set_device(RANK)
                device = torch.device("cuda", RANK)
                dist.init_process_group(backend="nccl")
            model = nn.Linear(2, 2).to(device)
            if device.type != "cpu" and RANK != -1:
                model = DDP(model, device_ids=[RANK], output_device=RANK)
        """
    )


def test_local_rank_argument_of_an_old_version_else_the_environment(check: Check) -> None:
    """Swin's way: torch 1 passes --local_rank, torch 2 sets LOCAL_RANK; one of the two is right."""
    check(
        """
        MAJOR = int(torch.__version__.split(".")[0])

        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            if MAJOR == 1:
                parser.add_argument("--local_rank", type=int, required=True)
            options, unparsed = parser.parse_known_args()
            if MAJOR == 1:
                local_rank = options.local_rank
            else:
                local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local_rank)
            dist.init_process_group(backend="nccl", init_method="env://")
            model = DDP(nn.Linear(2, 2).cuda(), device_ids=[local_rank])
        """
    )


def test_rank_variables_filled_from_another_launcher(check: Check) -> None:
    """open_clip's and DINOv2's way: SLURM's numbers are exported under torchrun's names."""
    check(
        """
        def numbers():
            for name in ("LOCAL_RANK", "SLURM_LOCALID"):
                if name in os.environ:
                    local = int(os.environ[name])
                    break
            return local, int(os.environ["RANK"])

        class Numbers:
            def __init__(self):
                self.local, self.rank = -1, -1
                if "SLURM_JOB_ID" in os.environ:
                    self.rank = int(os.environ["SLURM_PROCID"])
                    self.local = int(os.environ["SLURM_LOCALID"])
                else:
                    self.local, self.rank = numbers()

            def export(self):
                os.environ.update({"RANK": str(self.rank), "LOCAL_RANK": str(self.local)})
                return self

        found = Numbers().export()
        os.environ["LOCAL_RANK"] = str(found.local)
        torch.cuda.set_device(found.local)
        dist.init_process_group("nccl")
        model = DDP(nn.Linear(2, 2).cuda())
        """
    )


WORK = """
def work(*given, **named):
    dist.init_process_group("nccl")  # DDP201
    DDP(nn.Linear(2, 2).cuda())  # DDP101

def rest(*given, **named):
    pass

"""

# How programs choose what they run; lint has to follow each of them.
CHOICES = {
    "table of functions": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--task", default="train")
        {"train": work, "test": rest}[parser.parse_args().task]()
        """,
    "table of functions, the choice unknown": """
        table = {"train": work, "test": rest}
        table.get(input(), rest)()
        """,
    "name in this file": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--function", default="work")
        getattr(sys.modules[__name__], parser.parse_args().function)()
        """,
    "name with a part that is not known": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--how", default="none")
        options = parser.parse_args()

        class Jobs:
            def run_slowly(self):
                work()

            def run_quickly(self):
                pass

        if options.how != "none":
            getattr(Jobs(), "run_%s" % options.how)()
        """,
    "name of a function of another file, a part not known": """
        import jobs.train
        getattr(jobs.train, f"{input()}un")(work)
        """,
    "name that is evaluated": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--function", default="run")
        import jobs.train
        eval("jobs.train." + parser.parse_args().function)(work)
        """,
    "name in a dictionary of the file": """
        globals()["work"]()
        """,
    "dotted path": """
        module, _, name = "jobs.train.run".rpartition(".")
        getattr(importlib.import_module(module), name)(work)
        """,
    "module that an option names": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--job", default="train")
        module = importlib.import_module("jobs." + parser.parse_args().job)
        getattr(module, "run")(work)
        """,
    "module of a package that an option names": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--job", default="train")
        name = parser.parse_args().job
        importlib.import_module(f"..{name}", package="jobs.inner").run(work)
        """,
    "table of subclasses": """
        class Job:
            pass

        class Train(Job):
            def run(self):
                work()

        {cls.__name__: cls for cls in Job.__subclasses__()}["Train"]().run()
        """,
    "dictionary of a module": """
        import jobs.train
        jobs.train.__dict__["run"](work)
        """,
    "variables of a module": """
        import jobs.train
        vars(jobs.train)["run"](work)
        """,
    "hydra's instantiate": """
        from hydra.utils import instantiate
        instantiate({"_target_": "jobs.train.Job", "work": work}).run()
        """,
    "pydoc's locate": """
        from pydoc import locate
        locate("jobs.train.run")(work)
        """,
    "registry of subclasses": """
        class Job:
            known = {}

            def __init_subclass__(cls, **named):
                Job.known[cls.__name__] = cls

        class Train(Job):
            def run(self):
                work()

        Job.known["Train"]().run()
        """,
    "click group": """
        import click

        @click.group()
        def cli():
            pass

        @cli.command()
        @click.option("--epochs", default=1)
        def train(epochs):
            work()

        @cli.command(name="test")
        def evaluate():
            rest()

        cli()
        """,
    "typer": """
        import typer
        app = typer.Typer()

        @app.command()
        def train(epochs: int = 1):
            work()

        app()
        """,
    "fire, a class": """
        import fire

        class Commands:
            def train(self, epochs=1):
                work()

        fire.Fire(Commands)
        """,
    "fire, the whole file": """
        import fire
        fire.Fire()
        """,
}

JOBS = """
def run(work):
    work()

class Job:
    def __init__(self, work):
        self.work = work

    def run(self):
        self.work()
"""


@pytest.mark.parametrize("way", CHOICES)
def test_what_runs_is_chosen_by_name(check: Check, way: str) -> None:
    source = "import importlib\n" + WORK + dedent(CHOICES[way])
    check(source, {"jobs/__init__.py": "", "jobs/train.py": JOBS})


def test_commands_are_run_one_by_one(check: Check) -> None:
    """What one command does to the process is no concern of the next."""
    check(
        """
        import fire

        def one():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

        def two():
            dist.init_process_group("nccl")  # DDP201
            DDP(nn.Linear(2, 2).cuda())  # DDP101

        fire.Fire({"one": one, "two": two})
        """
    )


def test_processes_as_classes(check: Check) -> None:
    """Each instance that a loop starts is one rank; the number it gets is its local rank."""
    check(
        """
        class Worker(mp.Process):
            def __init__(self, number):
                super().__init__()
                self.number = number

            def run(self):
                torch.cuda.set_device(self.number)
                dist.init_process_group("nccl", rank=self.number, world_size=4)
                DDP(nn.Linear(2, 2).cuda(), device_ids=[self.number])

        class Unbound(Worker):
            def run(self):
                dist.init_process_group("nccl", rank=self.number, world_size=4)  # DDP201
                DDP(nn.Linear(2, 2).cuda())  # DDP101

        for number in range(4):
            Worker(number).start()
            Unbound(number).start()
        """
    )


def test_thread_as_a_class(check: Check) -> None:
    check(
        """
        class Feeder(threading.Thread):
            def run(self):
                torch.zeros(2).cuda()  # DDP209

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        Feeder().start()
        """
    )


def test_defaults_that_a_configuration_file_replaces(check: Check) -> None:
    """yacs: NUM_GPUS = 1 is a default only, so the branch for several GPUs may be taken."""
    check(
        """
        from yacs.config import CfgNode

        config = CfgNode()
        config.NUM_GPUS = 1
        config.GPU = 0  # DDP103: warning

        def worker(number, config):
            dist.init_process_group("nccl", rank=number)  # DDP201
            DDP(nn.Linear(2, 2).cuda())  # DDP101
            torch.zeros(2).cuda(config.GPU)

        config.merge_from_file("job.yaml")
        if config.NUM_GPUS > 1:
            mp.spawn(worker, nprocs=config.NUM_GPUS, args=(config,))
        else:
            worker(0, config)
        """
    )


LISTS_OF_GPUS = {
    "setting": """
        from yacs.config import CfgNode

        config = CfgNode()
        config.GPUS = (0,)
        config.merge_from_file("job.yaml")
        gpus = list(config.GPUS)
        """,
    "option": """
        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", nargs="+", type=int, default=[0])
        gpus = parser.parse_args().gpus
        """,
}


@pytest.mark.parametrize("given", LISTS_OF_GPUS)
def test_a_list_that_the_user_replaces_may_be_longer(check: Check, given: str) -> None:
    check(
        dedent(LISTS_OF_GPUS[given])
        + dedent("""
        if len(gpus) > 1:
            dist.init_process_group("nccl")  # DDP201
        model = DDP(nn.Linear(2, 2).cuda())  # DDP101
        """)
    )


def test_settings_copied_key_by_key(check: Check) -> None:
    """A table that is written under unknown keys may hold any of them: no default is certain."""
    check(
        """
        settings = {}
        for line in open("job.conf"):
            name, value = line.split("=")
            settings[name] = value

        more = dict(backend="nccl")
        more.update(json.loads(input()))

        def start(backend="nccl", gpu=0, index=0):
            dist.init_process_group(backend)
            DDP(nn.Linear(2, 2).cuda(gpu))
            torch.zeros(2).cuda(index)

        start(**settings)
        start(gpu=settings.get("gpu", 0), **more)
        """
    )


def test_record_filled_from_the_command_line(check: Check) -> None:
    """espnet's way: the fields of a dataclass are looked up in the arguments one by one."""
    check(
        """
        @dataclasses.dataclass
        class Job:
            gpus: int = 0
            distributed: bool = False
            local_rank: int = 0

            def start(self):
                if self.distributed:
                    dist.init_process_group("nccl")  # DDP201
                    DDP(nn.Linear(2, 2).cuda())  # DDP101

        def build(cls, options):
            given = {}
            for field in dataclasses.fields(cls):
                if not hasattr(options, field.name):
                    raise ValueError(field.name)
                given[field.name] = getattr(options, field.name)
            return cls(**given)

        parser = argparse.ArgumentParser()
        parser.add_argument("--gpus", type=int, default=0)
        parser.add_argument("--local_rank", type=int, default=None)
        options = parser.parse_args()
        options.distributed = options.gpus > 1
        build(Job, options).start()
        """
    )


def test_simulated_process_group(check: Check) -> None:
    """torchtitan's way: the backend "fake" sends nothing, so one process stands for all."""
    check(
        """
        if __name__ == "__main__":
            dist.init_process_group("fake", rank=0, world_size=8)
            device = torch.device("cuda:0")
            torch.cuda.set_device(device)
            DDP(nn.Linear(2, 2).to(device))
        """
    )


def test_mask_of_another_vendor_taken_over(check: Check) -> None:
    """verl's way: ROCm's mask is moved to the name that every library reads."""
    check(
        """
        if torch.cuda.is_available() and os.environ.get("HIP_VISIBLE_DEVICES"):
            os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.pop("HIP_VISIBLE_DEVICES")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        DDP(nn.Linear(2, 2).cuda())
        """
    )


def test_device_module_that_is_not_known(check: Check) -> None:
    """torchtitan's way: torch.cuda comes out of a function that nothing is known of."""
    check(
        """
        from torch._utils import _get_available_device_type, _get_device_module

        kind = _get_available_device_type() or "cuda"
        module = _get_device_module(kind)
        module.set_device(torch.device(kind, int(os.environ["LOCAL_RANK"])))
        dist.init_process_group("nccl")
        DDP(nn.Linear(2, 2).cuda())
        """
    )


def test_rank_in_the_group_of_one_machine(check: Check) -> None:
    """detectron2's and YOLOX's way: the local rank is the rank in a group of this machine's."""
    check(
        """
        LOCAL = None

        def get_local_rank():
            return dist.get_rank() if LOCAL is None else dist.get_rank(group=LOCAL)

        def worker(number, per_machine, machine):
            global LOCAL
            dist.init_process_group("nccl", rank=machine * per_machine + number)
            for other in range(int(os.environ["MACHINES"])):
                group = dist.new_group(list(range(other * per_machine, (other + 1) * per_machine)))
                if other == machine:
                    LOCAL = group
            torch.cuda.set_device(get_local_rank())
            DDP(nn.Linear(2, 2).cuda(), device_ids=[get_local_rank()])

        mp.spawn(worker, nprocs=8, args=(8, int(os.environ["MACHINE"])))
        """
    )


def test_parent_that_is_rank_zero(check: Check) -> None:
    """ParlAI's way: the process that starts the others goes on as the first rank."""
    check(
        """
        def work(rank, shift):
            torch.cuda.set_device(rank + shift)
            dist.init_process_group("nccl", rank=rank + shift, world_size=4)
            torch.zeros(2).cuda()

        def evaluate():
            children = mp.start_processes(work, args=(1,), nprocs=3, join=False)
            work(0, 0)
            children.join()

        evaluate()
        evaluate()
        """
    )
