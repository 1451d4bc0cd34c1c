"""Configuration: dictionaries, namespaces and files that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check


@pytest.mark.parametrize(
    "make",
    [
        "argparse.Namespace(gpu=2)",
        "types.SimpleNamespace(gpu=2)",
        "argparse.Namespace(**{'gpu': 2})",
        "EasyDict({'gpu': 2})",
        "EasyDict(gpu=2)",
        "edict({'gpu': 2})",
        "OmegaConf.create({'gpu': 2})",
        "CfgNode({'gpu': 2})",
        "CN(dict(gpu=2))",
        "Munch(gpu=2)",
        "addict.Dict(gpu=2)",
        "ml_collections.ConfigDict({'gpu': 2})",
        "DotMap(gpu=2)",
        "Box({'gpu': 2})",
    ],
)
def test_namespaces_of_many_makes(check: Check, make: str) -> None:
    check(f"""
    import addict, ml_collections, types
    from box import Box
    from dotmap import DotMap
    from easydict import EasyDict
    from easydict import EasyDict as edict
    from munch import Munch
    from omegaconf import OmegaConf
    from yacs.config import CfgNode, CfgNode as CN

    config = {make}  # DDP103
    dist.init_process_group("nccl")
    torch.ones(1, device=config.gpu)
    """)


def test_a_tree_of_yacs_nodes(check: Check) -> None:
    check("""
    from yacs.config import CfgNode as CN

    _C = CN()
    _C.MODEL = CN()
    _C.MODEL.GPU = 2  # DDP103
    _C.DEVICE = "cuda:0"

    def get_cfg():
        return _C.clone()

    cfg = get_cfg()
    cfg.merge_from_list(sys.argv)
    cfg.DEVICE = torch.device("cuda", dist.get_rank())  # DDP203
    cfg.freeze()
    dist.init_process_group("nccl")
    torch.ones(1, device=cfg.MODEL.GPU)
    torch.ones(1, device=cfg.DEVICE)
    """)


def test_dictionaries_are_read_and_written(check: Check) -> None:
    check("""
    config = {"gpu": 0, "nested": {"card": 1}}  # DDP103
    config["gpu"] = 2  # DDP103
    config.update(third=3, fourth=0)  # DDP103
    config.update({"fourth": 4})  # DDP103
    config |= {"fifth": 5}  # DDP103
    merged = {**config, "sixth": 6}  # DDP103
    dist.init_process_group("nccl")
    torch.ones(1, device=config["nested"]["card"])
    torch.ones(1, device=config["gpu"])
    torch.ones(1, device=config.get("third"))
    torch.ones(1, device=merged["fourth"])
    torch.ones(1, device=merged["fifth"])
    torch.ones(1, device=merged["sixth"])
    torch.ones(1, device=config.get("seventh", 7))  # DDP103
    torch.ones(1, device=config.setdefault("eighth", 8))  # DDP103
    torch.ones(1, device=config.pop("eighth"))
    torch.ones(1, device=config.get("eighth", 9))  # DDP103
    """)


def test_a_key_written_on_one_branch_has_the_default_on_the_other(check: Check) -> None:
    check("""
    parser = argparse.ArgumentParser()
    parser.add_argument("--local", action="store_true")
    config = {}
    if parser.parse_args().local:
        config["gpu"] = int(os.environ["LOCAL_RANK"])
    dist.init_process_group("nccl")
    torch.ones(1, device=config.get("gpu", 2))  # DDP103
    """)


def test_dictionaries_are_walked(check: Check) -> None:
    check("""
    dist.init_process_group("nccl")
    for name, index in {"a": 1, "b": 2}.items():  # DDP103
        torch.ones(1, device=index)
    for index in {"a": 3}.values():  # DDP103
        torch.ones(1, device=index)
    by_name = {name: index for name, index in zip(["x", "y"], [4, 5])}  # DDP103
    torch.ones(1, device=by_name["y"])
    """)


def test_a_copy_is_another_object(check: Check) -> None:
    check("""
    config = {"gpu": 2}  # DDP103
    shallow, deep = copy.copy(config), copy.deepcopy(config)
    config["gpu"] = dist.get_rank()
    dist.init_process_group("nccl")
    torch.ones(1, device=shallow["gpu"])
    torch.ones(1, device=deep["gpu"])
    torch.ones(1, device=config["gpu"])  # DDP203
    """)


def test_an_alias_is_the_same_object(check: Check) -> None:
    check("""
    config = {"gpu": 0}
    alias = config
    alias["gpu"] = 2  # DDP103
    dist.init_process_group("nccl")
    torch.ones(1, device=config["gpu"])
    """)


YAML = "gpu: 2\nmodel:\n  device: cuda:3\n  layers: [1, 2]\n"
JSON = '{"gpu": 2, "model": {"device": "cuda:3"}}'


@pytest.mark.parametrize(
    ("load", "name", "text"),
    [
        ("yaml.safe_load(open('config.yaml'))", "config.yaml", YAML),
        ("yaml.load(file, Loader=yaml.FullLoader)", "config.yaml", YAML),
        ("yaml.safe_load(file.read())", "config.yaml", YAML),
        ("json.load(open('config.json'))", "config.json", JSON),
        ("json.loads(Path('config.json').read_text())", "config.json", JSON),
        ("yaml.safe_load(Path('config.yaml').read_text())", "config.yaml", YAML),
    ],
)
def test_files_beside_the_program_are_read(check: Check, load: str, name: str, text: str) -> None:
    check(
        f"""
    from pathlib import Path
    dist.init_process_group("nccl")
    with open("config.yaml") as file:
        config = {load}  # DDP103
    torch.ones(1, device=config["gpu"])
    """,
        {name: text},
    )


def test_a_file_named_by_an_option_is_its_default(check: Check) -> None:
    check(
        """
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="configs/base.yaml")
    args = parser.parse_args()
    with open(args.config) as file:
        config = yaml.safe_load(file)  # DDP103: warning
    dist.init_process_group("nccl")
    torch.ones(1, device=config["model"]["device"])
    """,
        {"configs/base.yaml": YAML},
    )


def test_a_file_that_is_not_there_is_unknown(check: Check) -> None:
    check("""
    config = yaml.safe_load(open("missing.yaml"))
    dist.init_process_group("nccl")
    torch.ones(1, device=config["gpu"])
    """)


def test_what_is_merged_and_not_seen_may_change_all_before_it(check: Check) -> None:
    check(
        """
    from omegaconf import OmegaConf

    base = OmegaConf.load("config.yaml")  # DDP103
    more = OmegaConf.create({"train": {"card": 4}})  # DDP103: warning
    config = OmegaConf.merge(base, more, OmegaConf.from_cli(), {"own": 5})  # DDP103: error
    dist.init_process_group("nccl")
    torch.ones(1, device=config.train.card)
    torch.ones(1, device=config.own)
    torch.ones(1, device=OmegaConf.to_container(base)["gpu"])
    """,
        {"config.yaml": YAML},
    )


def test_a_reference_in_a_file_is_not_its_text(check: Check) -> None:
    check(
        """
    from omegaconf import OmegaConf

    config = OmegaConf.load("config.yaml")
    dist.init_process_group("nccl")
    if config.mode == "shared":
        torch.ones(1, device=1)  # DDP103
    """,
        {"config.yaml": "mode: ${oc.env:MODE}\n"},
    )


def test_omegaconf_files_and_merges(check: Check) -> None:
    check(
        """
    from omegaconf import OmegaConf

    base = OmegaConf.load("config.yaml")  # DDP103
    config = OmegaConf.merge(base, OmegaConf.create({"card": 4}))  # DDP103
    dist.init_process_group("nccl")
    torch.ones(1, device=base.gpu)
    torch.ones(1, device=config.card)
    """,
        {"config.yaml": YAML},
    )


INI = """
[DEFAULT]
card = 2

[train]
GPU = 1
device = cuda:%(card)s
distributed = yes
"""


@pytest.mark.parametrize(
    "device",
    [
        'config.getint("train", "gpu")',
        'config.getint("train", "GPU", fallback=None)',
        'int(config["train"]["gpu"])',
        'config["train"].getint("gpu", 0)',
        'config["train"]["device"]',
        'config.get("train", "device")',
        '1 if config.getboolean("train", "distributed") else None',
    ],
)
def test_configparser_reads_its_file(check: Check, device: str) -> None:
    mark = "  # DDP103"
    on_use = mark if device.startswith("1 if") else ""
    check(
        f"""
    import configparser
    config = configparser.ConfigParser()
    config.read("train.ini"){"" if on_use else mark}
    dist.init_process_group("nccl")
    torch.ones(1, device={device}){on_use}
    """,
        {"train.ini": INI},
    )


def test_what_configparser_takes_where_a_file_is_silent(check: Check) -> None:
    check("""
    import configparser
    config = configparser.ConfigParser()
    config.read(["missing.ini", sys.argv[1]])
    dist.init_process_group("nccl")
    torch.ones(1, device=config.getint("train", "gpu"))
    torch.ones(1, device=config.getint("train", "gpu", fallback=2))  # DDP103: warning
    torch.ones(1, device=config.getint("train", "gpu", fallback=int(os.environ["LOCAL_RANK"])))
    config.read_string("[train]\\ngpu = x")
    torch.ones(1, device=config.getint("train", "gpu"))
    """)


def test_a_configuration_as_keywords_leaves_the_other_defaults(check: Check) -> None:
    check("""
    from omegaconf import OmegaConf

    def build(width, device="cuda:0"):  # DDP103
        return nn.Linear(width, 2).to(device)

    def place(width, device="cuda:0"):
        return nn.Linear(width, 2).to(device)

    class Options:
        def keys(self):
            return read()

    dist.init_process_group("nccl")
    build(**OmegaConf.create({"width": 2}))
    place(**Options())
    """)


def test_a_class_named_in_a_file_that_an_option_names(check: Check) -> None:
    check(
        """
    import importlib
    import lightning.pytorch as pl

    def instantiate(config):
        module, name = config["target"].rsplit(".", 1)
        return getattr(importlib.import_module(module), name)(**config.get("params", dict()))

    parser = argparse.ArgumentParser()
    parser.add_argument("--base", default="base.yaml")
    args = parser.parse_args()
    config = yaml.safe_load(open(args.base))
    pl.Trainer(devices=4).fit(instantiate(config["model"]))
    """,
        {
            "base.yaml": "model: {target: nets.Net, params: {width: 2}}",
            "nets.py": """
            import lightning.pytorch as pl
            import torch

            class Net(pl.LightningModule):
                def __init__(self, width, device="cuda:0"):  # DDP103
                    super().__init__()
                    self.where = device

                def training_step(self, batch, index):
                    return torch.ones(2, device=self.where)
            """,
        },
    )
