"""Lightning and Fabric: code before fit() is unbound on every rank, the hooks it calls are not."""

from __future__ import annotations

import pytest

MODEL = """\
import lightning.pytorch as pl

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
"""


def test_before_fit_every_rank_is_unbound(check):
    check(
        MODEL
        + """
extra = nn.Linear(2, 2).cuda()  # DDP101: error
pl.Trainer(devices=4, strategy="ddp").fit(Net())
"""
    )


def test_hooks_and_what_follows_fit_are_bound(check):
    check(
        MODEL
        + """
    def setup(self, stage):
        self.teacher = nn.Linear(2, 2).cuda()

    def training_step(self, batch, index):
        return self.fc(torch.ones(2).cuda()).sum()

trainer = pl.Trainer(devices=4, strategy="ddp")
trainer.fit(Net())
torch.ones(2).cuda()
"""
    )


def test_a_hook_with_a_constant_index(check):
    check(
        MODEL
        + """
    def validation_step(self, batch, index):
        return self.fc(torch.ones(2, device="cuda:0"))  # DDP103

pl.Trainer(devices=2).fit(model=Net())
"""
    )


def test_each_module_that_may_be_the_one_that_is_trained(check):
    check(
        MODEL
        + """
    def training_step(self, batch, index):
        return self.fc(torch.ones(2, device="cuda:0"))  # DDP103

class Wide(Net):
    def training_step(self, batch, index):
        return self.fc(torch.ones(2, device="cuda:1"))  # DDP103

parser = argparse.ArgumentParser()
parser.add_argument("--wide", action="store_true")
model = Wide() if parser.parse_args().wide else Net()
pl.Trainer(devices=2).fit(model)
"""
    )


def test_the_module_moves_to_its_own_device_in_fit(check):
    check(
        MODEL
        + """
        self.start = self.device

    def forward(self, x):
        return self.fc(torch.zeros(2, device=self.device)) + self.fc(torch.zeros(2))  # DDP105

    def training_step(self, batch, index):
        return self(batch)

pl.Trainer(devices=2).fit(Net())
"""
    )


@pytest.mark.parametrize(
    "settings",
    [
        'devices=1, strategy="ddp"',
        "devices=[3]",
        'devices="1"',
        "gpus=1",
        "gpus=0",
        'accelerator="cpu", devices=4, strategy="ddp"',
        'devices=4, strategy="dp"',
        'gpus=4, accelerator="dp"',
        "",
    ],
)
def test_one_process_or_an_unseen_number_is_silent(check, settings):
    check(MODEL + f"Net().cuda()\npl.Trainer({settings}).fit(Net())\n")


@pytest.mark.parametrize(
    "settings",
    [
        'strategy="ddp_find_unused_parameters_true"',
        "devices=[0, 1]",
        'devices="0,1"',
        "devices=1, num_nodes=2",
        "strategy=pl.strategies.DDPStrategy(static_graph=True)",
        'gpus=-1, accelerator="ddp"',
        'gpus=2, distributed_backend="ddp"',
    ],
)
def test_several_processes_as_the_trainer_says(check, settings):
    check(MODEL + f"Net().cuda()  # DDP101\npl.Trainer({settings}).fit(Net())\n")


def test_an_option_with_one_device_by_default_still_means_ddp(check):
    check(
        MODEL
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--devices", type=int, default=1)
Net().cuda()  # DDP101
pl.Trainer(devices=parser.parse_args().devices, strategy="ddp").fit(Net())
"""
    )


def test_a_strategy_that_is_an_option(check):
    check(
        MODEL
        + """
parser = argparse.ArgumentParser()
parser.add_argument("--strategy", default="ddp")
Net().cuda()  # DDP101
pl.Trainer(strategy=parser.parse_args().strategy).fit(Net())
"""
    )


def test_a_trainer_of_the_program_and_one_from_arguments(check):
    check(
        MODEL
        + """
    def training_step(self, batch, index):
        return torch.ones(2, device="cuda:0")  # DDP103

class Own(pl.Trainer):
    pass

args = argparse.ArgumentParser().parse_args()
Own(devices=2).fit(Net())
"""
    )
    check(
        MODEL
        + """
    def training_step(self, batch, index):
        return torch.ones(2, device="cuda:0")  # DDP103

args = argparse.ArgumentParser().parse_args()
pl.Trainer.from_argparse_args(args, strategy="ddp").fit(Net())
"""
    )


def test_old_and_new_package_names(check):
    check(
        """
        from pytorch_lightning import LightningModule, Trainer
        from pytorch_lightning.core.lightning import LightningModule as Old

        class Net(Old):
            def training_step(self, batch, index):
                return torch.ones(2, device="cuda:1")  # DDP103

        Trainer(gpus=4).fit(Net())
        """
    )


def test_a_checkpoint_that_every_rank_loads(check):
    check(
        MODEL
        + """
net = Net.load_from_checkpoint("a.ckpt")  # DDP104: warning
Net.load_from_checkpoint("a.ckpt", map_location="cpu")
pl.Trainer(devices=2).fit(net, ckpt_path="a.ckpt")
"""
    )


def test_a_checkpoint_gives_an_instance_of_the_class(check):
    check(
        MODEL
        + """
    def training_step(self, batch, index):
        return torch.ones(2, device="cuda:0")  # DDP103

pl.Trainer(devices=2).fit(Net.load_from_checkpoint("a.ckpt", map_location="cpu"))
"""
    )


def test_rank_zero_only_does_not_run_on_other_ranks(check):
    check(
        MODEL
        + """
    @pl.utilities.rank_zero_only
    def show(self):
        return self.fc.to("cuda:0")

    def on_train_start(self):
        self.show()
        if self.trainer.is_global_zero or self.global_rank == 0:
            torch.ones(1, device="cuda:0")
        torch.ones(1, device=self.trainer.strategy.root_device)
        torch.ones(1, device=f"cuda:{self.local_rank}")

pl.Trainer(devices=2).fit(Net())
"""
    )


def test_callbacks_run_bound(check):
    check(
        MODEL
        + """
class Watch(pl.Callback):
    def on_train_start(self, trainer, module):
        torch.ones(1).cuda()
        torch.ones(1, device="cuda:0")  # DDP103

pl.Trainer(devices=2, callbacks=[Watch()]).fit(Net())
"""
    )


def test_fabric_binds_in_launch(check):
    check(
        """
        import lightning
        fabric = lightning.Fabric(devices=2, strategy="ddp")
        before = nn.Linear(2, 2).cuda()  # DDP101
        fabric.launch()
        model = nn.Linear(2, 2)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters()))
        model(torch.ones(2).to(fabric.device))
        model(fabric.to_device(torch.ones(2)))
        torch.ones(2).cuda()
        state = fabric.load("a.ckpt")
        model.load_state_dict(state["model"])
        model.load_state_dict(torch.load("b.ckpt"))  # DDP104
        """
    )


def test_fabric_launches_a_function(check):
    check(
        """
        from lightning.fabric import Fabric

        def main(fabric, path):
            torch.ones(1).cuda()
            torch.ones(1, device="cuda:0")  # DDP103

        Fabric(devices=2).launch(main, "x")
        """
    )


def test_fabric_makes_tensors_on_its_own_device(check):
    check(
        """
        from lightning.fabric import Fabric

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)

            def cache(self):
                self.mask = torch.ones(2)

            def forward(self, x):
                return self.fc(x) + self.mask

        fabric = Fabric(devices=2, strategy="fsdp")
        fabric.launch()
        net = fabric.setup(Net())
        with fabric.init_tensor():
            net.cache()
        net(torch.ones(2, device=fabric.device))
        """
    )


CLI = (
    MODEL
    + """
    def training_step(self, batch, index):
        torch.ones(2).cuda()
        return self.fc(torch.ones(2, device="cuda:0"))  # DDP103

class Data(pl.LightningDataModule):
    def __init__(self, device="cpu"):
        self.mean = torch.ones(2, device=device)

    def train_dataloader(self):
        torch.ones(2, device="cuda:1")  # DDP103

from lightning.pytorch.cli import LightningCLI
"""
)
SETTINGS = 'trainer_defaults={"strategy": "ddp", "devices": 4}'


@pytest.mark.parametrize(
    "start",
    [
        f"LightningCLI(Net, Data, {SETTINGS})",
        f"cli = LightningCLI(Net, Data, {SETTINGS}, run=False)\n"
        "cli.trainer.fit(cli.model, datamodule=cli.datamodule)",
        "class Cli(LightningCLI):\n    def add_arguments_to_parser(self, parser):\n        pass\n\n"
        f"cli = Cli(Net, Data, {SETTINGS}, run=False)\n"
        "cli.trainer.fit(cli.model, cli.datamodule)",
        "class Trainer(pl.Trainer):\n    pass\n\n"
        f"LightningCLI(model_class=Net, datamodule_class=Data, trainer_class=Trainer, {SETTINGS})",
    ],
)
def test_the_command_line_makes_and_trains(check, start):
    check(CLI + start)


@pytest.mark.parametrize(
    "start", [f"LightningCLI(Net, Data, {SETTINGS}, run=False)", "LightningCLI(Net, Data)"]
)
def test_a_command_line_that_does_not_train_or_may_be_for_one_gpu(check, start):
    check(CLI.replace("  # DDP103", "") + start)


def test_a_trainer_made_from_parsed_options(check):
    check(
        """
        import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def training_step(self, batch, i):
                return torch.ones(2, device="cuda:0").sum()  # DDP103

        options = vars(pl.Trainer.add_argparse_args(argparse.ArgumentParser()).parse_args())
        options["distributed_backend"] = "ddp"
        pl.Trainer.from_argparse_args(argparse.Namespace(**options)).fit(Net())
        """
    )


def test_parsed_options_of_one_process(check):
    check(
        """
        import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def training_step(self, batch, i):
                return torch.ones(2, device="cuda:0").sum()

        parser = argparse.ArgumentParser()
        parser.add_argument("--strategy", default="single_device")
        pl.Trainer.from_argparse_args(parser.parse_args()).fit(Net())
        """
    )
