"""Programs that Hydra configures: YAML files that name each other, and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddpdoctor.lint import lint, repair

if TYPE_CHECKING:
    from tests.lint.conftest import Check

MAIN = """\
import hydra
from hydra.utils import instantiate

@hydra.main(version_base=None, config_path="conf", config_name="config")  # {found}
def main(cfg):
    dist.init_process_group("nccl")
    torch.ones(1, device={device})

main()
"""


def test_a_configuration_holds_by_default(check: Check) -> None:
    found = check(
        MAIN.format(found="DDP103: warning", device="cfg.train.gpu"),
        {"conf/config.yaml": "train:\n  gpu: 1\n"},
    )
    assert "the default of train.gpu" in found["DDP103"].message


def test_the_argument_of_main_is_given_whatever_its_default(check: Check) -> None:
    check(
        MAIN.format(found="DDP103", device="cfg.gpu").replace("main(cfg)", "main(cfg=None)"),
        {"conf/config.yaml": "gpu: 1\n"},
    )


def test_nemo_starts_hydra(check: Check) -> None:
    check(
        MAIN.format(found="DDP103", device="cfg.gpu")
        .replace("import hydra\n", "from nemo.core.config import hydra_runner\n")
        .replace("hydra.main(version_base=None, ", "hydra_runner("),
        {"conf/config.yaml": "gpu: 1\n"},
    )


def test_a_file_that_is_not_there_is_unknown(check: Check) -> None:
    check(MAIN.format(found="nothing", device="cfg.gpu"))


def test_what_is_left_open_or_to_another_resolver_is_unknown(check: Check) -> None:
    check(
        MAIN.format(found="nothing", device="cfg.gpu"),
        {"conf/config.yaml": "gpu: ???\ncard: ${hydra:job.num}\n"},
    )


@pytest.mark.parametrize(
    ("files", "device"),
    [
        ({"config": "defaults:\n  - base\n", "base": "gpu: 1\n"}, "cfg.gpu"),
        (
            {"config": "defaults:\n  - trainer: ddp\n  - _self_\n", "trainer/ddp": "gpu: 1\n"},
            "cfg.trainer.gpu",
        ),
        (
            {
                "config": "defaults:\n  - trainer: ddp\n",
                "trainer/ddp": "defaults:\n  - base\n  - cards: one\n",
                "trainer/base": "name: x\n",
                "trainer/cards/one": "gpu: 1\n",
            },
            "cfg.trainer.cards.gpu",
        ),
        (
            {
                "config": "defaults:\n  - optional debug: null\n  - env/one@place: x\n",
                "env/one/x": "gpu: 1\n",
            },
            "cfg.place.gpu",
        ),
        (
            {
                "config": "defaults:\n  - experiment: a\n",
                "experiment/a": "# @package _global_\ngpu: 1\n",
            },
            "cfg.gpu",
        ),
        (
            {
                "config": "defaults:\n  - t: a\n  - override t: b\n",
                "t/a": "gpu: null\n",
                "t/b": "gpu: 1\n",
            },
            "cfg.t.gpu",
        ),
        ({"config": "gpu: 1\ncard: ${gpu}\n"}, "cfg.card"),
        ({"config": "gpu: 1\ndevice: cuda:${gpu}\n"}, "cfg.device"),
        ({"config": "gpus: [1, 2]\n"}, "cfg.gpus[0]"),
    ],
)
def test_files_are_put_together(check: Check, files: dict[str, str], device: str) -> None:
    check(
        MAIN.format(found="DDP103", device=device),
        {f"conf/{name}.yaml": text for name, text in files.items()},
    )


def test_a_configuration_in_a_package(check: Check) -> None:
    check(
        MAIN.format(found="DDP103", device="cfg.gpu").replace('"conf"', '"pkg://project.conf"'),
        {"project/conf/config.yaml": "gpu: 1\n"},
        entry="project/train.py",
    )


def test_a_configuration_that_is_a_class(check: Check) -> None:
    check("""
    import hydra
    from hydra.core.config_store import ConfigStore

    @dataclasses.dataclass
    class Config:
        gpu: int = 1  # DDP103: warning

    store = ConfigStore.instance()
    store.store(name="config", node=Config)

    @hydra.main(version_base=None, config_name="config")
    def main(cfg: Config):
        dist.init_process_group("nccl")
        torch.ones(1, device=cfg.gpu)

    main()
    """)


def test_a_file_overrides_its_defaults_unless_it_says_where_it_stands(check: Check) -> None:
    files = {"conf/base.yaml": "gpu: 1\n"}
    config = "defaults:\n  - base\n{where}gpu: null\n"
    check(
        MAIN.format(found="nothing", device="cfg.gpu"),
        {**files, "conf/config.yaml": config.format(where="")},
    )
    check(
        MAIN.format(found="DDP103", device="cfg.gpu"),
        {"conf/config.yaml": "defaults:\n  - _self_\n  - base\ngpu: null\n", **files},
    )


def test_the_environment_in_a_configuration(check: Check) -> None:
    check(
        MAIN.format(found="nothing", device="cfg.rank").replace("rank)", "rank)  # DDP203"),
        {"conf/config.yaml": "rank: ${oc.env:RANK}\n"},
    )
    check(
        MAIN.format(found="nothing", device="cfg.device"),
        {"conf/config.yaml": "device: cuda:${oc.env:LOCAL_RANK}\n"},
    )


def test_a_local_rank_in_a_configuration_is_not_set_by_torchrun(check: Check) -> None:
    check(
        MAIN.format(found="DDP204", device="cfg.dist.local_rank"),
        {"conf/config.yaml": "dist:\n  local_rank: 0\n"},
    )


def test_what_stands_in_a_configuration_is_not_repaired_in_the_program(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("local_rank: 0\ngpu: 1\n")
    program = MAIN.format(found="DDP103 and DDP204", device="{}")
    for device in ("cfg.local_rank", "cfg.gpu"):
        script.write_text(
            "import torch, torch.distributed as dist\n" + program.replace("{}", device)
        )
        assert lint([script]).findings
        assert repair([script], unsafe=True).after == {}


INSTANTIATE = {
    "nets.py": """
    import torch

    class Net(torch.nn.Module):
        def __init__(self, head, width=8):
            super().__init__()
            self.head = head
            torch.ones(width).cuda()  # DDP101

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.ones(2).cuda(1)  # DDP103
    """,
}


@pytest.mark.parametrize(
    ("config", "make"),
    [
        (
            "net: {_target_: nets.Net, width: 4, head: {_target_: nets.Head}}",
            "instantiate(cfg.net)",
        ),
        (
            "net: {_target_: nets.Net, _partial_: true, head: {_target_: nets.Head}}",
            "instantiate(cfg.net)()",
        ),
        (
            "net: {_target_: nets.Net, _recursive_: false, head: {_target_: nets.Head}}",
            "instantiate(instantiate(cfg.net).head)",
        ),
        (
            "nets: [{_target_: nets.Head}, {_target_: nets.Net, head: null}]",
            "instantiate(cfg.nets)",
        ),
    ],
)
def test_what_a_configuration_names_is_made(check: Check, config: str, make: str) -> None:
    check(
        f"""
        import hydra
        from hydra.utils import instantiate

        @hydra.main(config_path="conf", config_name="config")
        def main(cfg):
            dist.init_process_group("nccl")  # DDP201
            {make}

        if __name__ == "__main__":
            main()
        """,
        {"conf/config.yaml": config, **INSTANTIATE},
    )


def test_a_trainer_made_by_its_configuration(check: Check) -> None:
    check(
        """
        import hydra
        from lightning import LightningModule

        class Net(LightningModule):
            def training_step(self, batch):
                torch.ones(1, device="cuda:0")  # DDP103

        @hydra.main(config_path="conf", config_name="config")
        def main(cfg):
            trainer = hydra.utils.instantiate(cfg.trainer)
            trainer.fit(model=Net())

        main()
        """,
        {
            "conf/config.yaml": "defaults:\n  - trainer: ddp\n",
            "conf/trainer/ddp.yaml": "_target_: lightning.Trainer\nstrategy: ddp\ndevices: 4\n",
        },
    )


def test_files_in_a_circle_and_broken_ones_end(check: Check) -> None:
    check(
        MAIN.format(found="nothing", device="cfg.gpu"),
        {
            "conf/config.yaml": "defaults:\n  - a\n  - b\n  - 3\n",
            "conf/a.yaml": "defaults:\n  - config\nx: &x {y: *x}\n",
            "conf/b.yaml": "gpu: [1\n",
        },
    )


@pytest.mark.parametrize(
    "config",
    [
        "defaults: 5",
        "defaults: {a: b}",
        "defaults: [[a], {1: 2, g/@x: [y, null]}, '', '/', {override a.b: c}, {'': ''}]",
        "defaults: [_self_, override a.b: c]\na: text",
        "1: {_target_: 3, 2: 4}\n_target_: [x]",
        "a: &a [*a, {b: *a}]\nd: &d {d: *d, e: *d}",
        "a: ${b}\nb: ${a}\nc: ${oc.env:X,${a}}\nd: ${}\ne: ${oc.env:}",
        "- a",
        "2001-01-01: !!binary aGk=",
        "",
    ],
)
def test_odd_configurations_are_no_obstacle(check: Check, config: str) -> None:
    check(
        """
        import hydra

        @hydra.main(config_path="conf", config_name="config")
        def main(cfg):
            dist.init_process_group("nccl")
            hydra.utils.instantiate(cfg)
            hydra.utils.instantiate(cfg.a)
            torch.ones(1, device=2)  # DDP103

        main()
        """,
        {"conf/config.yaml": config},
    )
