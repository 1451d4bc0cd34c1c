"""Classes: attributes, inheritance, properties, records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


def test_attributes_are_kept_by_the_object(check: Check) -> None:
    check("""
    class Trainer:
        def __init__(self, device):
            self.device = device

        def run(self):
            torch.ones(1, device=self.device)

    dist.init_process_group("nccl")
    Trainer(2).run()  # DDP103
    Trainer(int(os.environ["LOCAL_RANK"])).run()
    trainer = Trainer(0)
    trainer.device = dist.get_rank()
    torch.ones(1, device=trainer.device)  # DDP203
    """)


def test_a_class_attribute_counts_until_the_object_has_its_own(check: Check) -> None:
    check("""
    class Config:
        device = "cuda:1"  # DDP103
        other = "cuda:2"

    dist.init_process_group("nccl")
    torch.ones(1, device=Config.device)
    config = Config()
    config.other = torch.device("cuda", dist.get_rank())  # DDP203
    torch.ones(1, device=config.other)
    """)


def test_an_attribute_set_on_one_branch_falls_back_to_the_class(check: Check) -> None:
    check("""
    class Config:
        device = 2  # DDP103

    parser = argparse.ArgumentParser()
    parser.add_argument("--local", action="store_true")
    config = Config()
    if parser.parse_args().local:
        config.device = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.ones(1, device=config.device)
    """)


def test_methods_are_inherited_and_overridden(check: Check) -> None:
    check("""
    class First:
        def device(self):
            return 1

        def index(self):
            return 2  # DDP103

        def run(self):
            torch.ones(1, device=self.device())
            torch.ones(1, device=self.index())

    class Second(First):
        def device(self):
            return dist.get_rank() % torch.cuda.device_count()

    dist.init_process_group("nccl")
    Second().run()
    """)


@pytest.mark.parametrize("up", ["super()", "super(Second, self)"])
def test_super_calls_the_base(check: Check, up: str) -> None:
    check(f"""
    class First:
        def __init__(self, device):
            self.device = device

    class Second(First):
        def __init__(self):
            {up}.__init__(2)  # DDP103
            torch.ones(1, device=self.device)

    dist.init_process_group("nccl")
    Second()
    """)


def test_a_mixin_stands_before_the_base(check: Check) -> None:
    check("""
    class Base:
        def setup(self):
            self.index = 1

    class Mixin:
        def setup(self):
            super().setup()
            self.index = 2  # DDP103

    class Trainer(Mixin, Base):
        pass

    dist.init_process_group("nccl")
    trainer = Trainer()
    trainer.setup()
    torch.ones(1, device=trainer.index)
    """)


def test_properties_are_computed_and_set(check: Check) -> None:
    check("""
    class Trainer:
        @property
        def device(self):
            return torch.device("cuda", 2)  # DDP103

        @functools.cached_property
        def other(self):
            return dist.get_rank()

        @property
        def index(self):
            return self._index

        @index.setter
        def index(self, value):
            self._index = value

    dist.init_process_group("nccl")
    trainer = Trainer()
    torch.ones(1, device=trainer.device)
    torch.ones(1, device=trainer.other)  # DDP203
    trainer.index = 3  # DDP103
    torch.ones(1, device=trainer.index)
    """)


def test_class_and_static_methods(check: Check) -> None:
    check("""
    class Trainer:
        index = 2  # DDP103

        def __init__(self, device):
            self.device = device

        @classmethod
        def make(cls):
            return cls(cls.index)

        @staticmethod
        def place(device):
            torch.ones(1, device=device)

    dist.init_process_group("nccl")
    torch.ones(1, device=Trainer.make().device)
    Trainer.place(3)  # DDP103
    Trainer(0).place(4)  # DDP103
    Trainer(0).make()
    """)


def test_instances_are_called(check: Check) -> None:
    check("""
    class Place:
        def __call__(self, device):
            torch.ones(1, device=device)

    class Net(nn.Module):
        def forward(self, x, device):
            return x.to(device)

    dist.init_process_group("nccl")
    Place()(2)  # DDP103
    Net()(torch.ones(1), 3)  # DDP103
    """)


def test_an_unbound_method_takes_the_object_first(check: Check) -> None:
    check("""
    class Trainer:
        def place(self, device):
            torch.ones(1, device=device)

    dist.init_process_group("nccl")
    Trainer.place(Trainer(), 2)  # DDP103
    """)


def test_dataclass_fields_have_defaults(check: Check) -> None:
    check("""
    @dataclasses.dataclass
    class Base:
        index: int = 1

    @dataclasses.dataclass(frozen=True)
    class Config(Base):
        device: str = "cuda:2"  # DDP103
        devices: list = dataclasses.field(default_factory=lambda: [3])  # DDP103
        rank: int = dataclasses.field(default=4)  # DDP103
        late: int = 0

        def __post_init__(self):
            object.__setattr__(self, "late", 9)  # DDP103

    dist.init_process_group("nccl")
    config = Config(5)  # DDP103
    torch.ones(1, device=config.index)
    torch.ones(1, device=config.device)
    torch.ones(1, device=config.devices[0])
    torch.ones(1, device=config.rank)
    torch.ones(1, device=config.late)
    torch.ones(1, device=Config(device="cuda:6").device)  # DDP103
    torch.ones(1, device=dataclasses.replace(config, rank=7).rank)  # DDP103
    torch.ones(1, device=dataclasses.asdict(config)["rank"])
    """)


def test_named_tuples(check: Check) -> None:
    check("""
    from typing import NamedTuple

    class Place(NamedTuple):
        rank: int
        gpu: int = 2  # DDP103

    Other = collections.namedtuple("Other", "rank gpu")
    dist.init_process_group("nccl")
    place = Place(dist.get_rank())
    torch.ones(1, device=place.gpu)
    torch.ones(1, device=place.rank)  # DDP203
    torch.ones(1, device=Other(rank=1, gpu=3).gpu)  # DDP103
    rank, gpu = Place(0, 4)  # DDP103
    torch.ones(1, device=gpu)
    torch.ones(1, device=place._replace(gpu=5).gpu)  # DDP103
    torch.ones(1, device=Place(0, 6)[1])  # DDP103
    """)


def test_an_enumeration_gives_its_values(check: Check) -> None:
    check("""
    import enum

    class Card(enum.Enum):
        FIRST = "cuda:1"  # DDP103

    dist.init_process_group("nccl")
    torch.ones(1, device=Card.FIRST.value)
    """)


def test_attributes_by_name(check: Check) -> None:
    check("""
    class Config:
        pass

    dist.init_process_group("nccl")
    config = Config()
    setattr(config, "index", 2)  # DDP103
    torch.ones(1, device=getattr(config, "index", 0))
    torch.ones(1, device=getattr(config, "missing", 3))  # DDP103
    vars(config)["more"] = 4  # DDP103
    torch.ones(1, device=config.more)
    config.__dict__.update(again=5)  # DDP103
    torch.ones(1, device=config.again)
    torch.ones(1, device=6 if hasattr(config, "index") else 0)  # DDP103
    torch.ones(1, device=0 if hasattr(Config, "never") else 7)  # DDP103
    """)


def test_missing_attributes_are_asked_for(check: Check) -> None:
    check("""
    class Config:
        def __init__(self, entries):
            self.entries = entries

        def __getattr__(self, name):
            return self.entries[name]

        def __getitem__(self, name):
            return self.entries[name]

    dist.init_process_group("nccl")
    config = Config({"gpu": 2})  # DDP103
    torch.ones(1, device=config.gpu)
    torch.ones(1, device=Config({"gpu": 3})["gpu"])  # DDP103
    """)


def test_a_singleton_is_shared(check: Check) -> None:
    check("""
    class State:
        _instance = None

        @classmethod
        def get(cls):
            if cls._instance is None:
                cls._instance = cls()
                cls._instance.index = 2  # DDP103
            return cls._instance

    dist.init_process_group("nccl")
    torch.ones(1, device=State.get().index)
    State.get().index = dist.get_rank()
    torch.ones(1, device=State.get().index)  # DDP203
    """)


def test_setup_in_a_constructor_binds_the_process(check: Check) -> None:
    check("""
    class Distributed:
        def __init__(self):
            self.local_rank = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(self.local_rank)
            dist.init_process_group("nccl")

    Distributed()
    torch.ones(1).cuda()
    """)


def test_a_registry_of_classes(check: Check) -> None:
    check("""
    MODELS = {}

    def register(name):
        def decorate(cls):
            MODELS[name] = cls
            return cls
        return decorate

    @register("net")
    class Net:
        def place(self):
            torch.ones(1, device=2)  # DDP103

    dist.init_process_group("nccl")
    MODELS["net"]().place()
    """)


def test_an_abstract_base_with_a_subclass_hook(check: Check) -> None:
    check("""
    from abc import ABC, abstractmethod

    class Trainer(ABC):
        @abstractmethod
        def device(self): ...

        def run(self):
            torch.ones(1, device=self.device())

    class Mine(Trainer):
        def device(self):
            return 2  # DDP103

    dist.init_process_group("nccl")
    Mine().run()
    """)


REGISTRY = """
from abc import ABCMeta
KNOWN = {}

class Registry(ABCMeta):
    def __new__(mcs, name, bases, namespace, **options):
        cls = super().__new__(mcs, name, bases, namespace)
        if namespace.get("name"):
            KNOWN[namespace["name"]] = cls
        return cls

    def build(cls, *arguments):
        return cls(*arguments)

class Base(metaclass=Registry):
    name = ""

class Wide(Base):
    name = "wide"

    def __init__(self, width):
        torch.ones(width, device="cuda:0")  # DDP103

dist.init_process_group("nccl")
"""


@pytest.mark.parametrize("use", ['KNOWN["wide"](2)', "KNOWN[read()](2)", "Wide.build(2)"])
def test_a_metaclass_is_told_of_every_class_and_has_methods_for_them(
    check: Check, use: str
) -> None:
    check(REGISTRY + use)


def test_what_a_metaclass_makes_of_the_namespace_and_of_the_class(check: Check) -> None:
    check("""
    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            namespace["gpu"] = 1  # DDP103
            return type.__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace):
            super().__init__(name, bases, namespace)
            cls.other = 2  # DDP103
            if not hasattr(cls, "checked"):
                raise TypeError(name)

    class Job(metaclass=Meta):
        pass

    dist.init_process_group("nccl")
    torch.ones(1, device=Job.gpu)
    torch.ones(1, device=Job.other)
    """)


def test_new_of_the_program_decides_which_instance_a_call_gives(check: Check) -> None:
    check("""
    class Context:
        _instance = None

        def __new__(cls):
            if cls._instance is None:
                cls._instance = super(Context, cls).__new__(cls)
                cls._instance.final = False
                cls._instance.rank = 0
            return cls._instance

        def set_rank(self, rank):
            if self.final:
                raise AttributeError("too late")
            self.rank = rank

    def worker(rank, world_size):
        dist.init_process_group("nccl", rank=rank, world_size=world_size)
        Context().set_rank(rank)
        Context().final = True
        torch.ones(1, device=Context().rank)
        torch.ones(1, device=3)  # DDP103

    if __name__ == "__main__":
        torch.multiprocessing.spawn(worker, args=(4,), nprocs=4)
    """)


def test_new_of_a_base_makes_instances_of_the_class_that_is_called(check: Check) -> None:
    check("""
    class Shared:
        def __new__(cls, *args, **kwargs):
            made = object.__new__(cls)
            made.card = 1  # DDP103
            return made

    class Job(Shared):
        def __new__(cls, other):
            return super().__new__(cls)

        def __init__(self, other):
            self.other = other

        def run(self):
            torch.ones(1, device=torch.device("cuda", self.card))
            torch.ones(1, device=torch.device("cuda", self.other))

    class Pick:
        def __new__(cls, name):
            return {"job": Job}[name](2)  # DDP103

    dist.init_process_group("nccl")
    Pick("job").run()
    """)


def test_a_class_of_the_program_has_only_what_it_was_given(check: Check) -> None:
    check("""
    class Context(object):
        @classmethod
        def instance(cls):
            if not hasattr(cls, "_instance"):
                cls._instance = cls()
            return cls._instance

    class Lazy:
        @classmethod
        def card(cls):
            if getattr(cls, "_card", None) is None:
                cls._card = 2  # DDP103
            return cls._card

    dist.init_process_group("nccl")
    Context.instance().device = torch.device("cuda", dist.get_rank())  # DDP203
    torch.ones(1, device=Context.instance().device)
    torch.ones(1, device=torch.device("cuda", Lazy.card()))
    """)


def test_what_a_class_inherits_from_elsewhere_may_be_there(check: Check) -> None:
    check("""
    import logging
    from unseen import Base, configured

    class Handler(logging.Handler):
        pass

    class Derived(Base):
        pass

    class Config:
        def __init__(self, settings):
            for name, value in settings.items():
                setattr(self, name, value)

    dist.init_process_group("nccl")
    if hasattr(Handler, "card"):
        torch.ones(1, device=torch.device("cuda", 1))  # DDP103
    if hasattr(Derived, "card"):
        torch.ones(1, device=torch.device("cuda", 1))  # DDP103
    if hasattr(Config(configured()), "card"):
        torch.ones(1, device=torch.device("cuda", 1))  # DDP103
    """)


def test_a_class_may_be_given_attributes_under_any_name(check: Check) -> None:
    check("""
    class Config:
        pass

    for name, value in json.load(open("config.json")).items():
        setattr(Config, name, value)
    if hasattr(Config, "bound"):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.ones(1, device=getattr(Config, "device", "cuda:0"))
    """)
