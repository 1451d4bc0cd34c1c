"""Accelerate: Accelerator() opens the group and binds; prepare() moves."""

from __future__ import annotations

import pytest


def test_bound_from_the_accelerator_on(check):
    check(
        """
        from accelerate import Accelerator
        early = nn.Linear(2, 2).cuda()  # DDP101: error
        accelerator = Accelerator(mixed_precision="fp16")
        late = nn.Linear(2, 2).cuda()
        torch.ones(2, device=accelerator.device)
        torch.ones(2, device="cuda:0")  # DDP103
        torch.ones(2, device=f"cuda:{accelerator.local_process_index}")
        torch.ones(2, device=f"cuda:{accelerator.process_index}")  # DDP203: warning
        """
    )


def test_prepare_moves_the_model_to_its_own_device(check):
    check(
        """
        from accelerate import Accelerator

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)

            def forward(self, x):
                return self.fc(x) + self.fc(torch.zeros(2))  # DDP105

        accelerator = Accelerator()
        net = Net()
        net, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters()))
        net(torch.ones(2, device=accelerator.device))
        """
    )


def test_a_checkpoint_that_every_process_loads(check):
    check(
        """
        from accelerate import Accelerator
        accelerator = Accelerator()
        model = accelerator.prepare(nn.Linear(2, 2))
        accelerator.unwrap_model(model).load_state_dict(torch.load("a.pt"))  # DDP104: warning
        model.load_state_dict(torch.load("a.pt", map_location=accelerator.device))
        accelerator.load_state("folder")
        """
    )


def test_the_main_process_is_not_this_one(check):
    check(
        """
        from accelerate import Accelerator
        accelerator = Accelerator()
        if accelerator.is_main_process:
            torch.ones(1, device="cuda:0")

        @accelerator.on_main_process
        def show():
            torch.ones(1, device="cuda:0")

        show()
        """
    )


def test_the_cpu_is_no_gpu_job(check):
    check(
        """
        from accelerate import Accelerator
        nn.Linear(2, 2).cuda()
        accelerator = Accelerator(cpu=True)
        """
    )


def test_notebook_launcher_starts_the_ranks(check):
    check(
        """
        from accelerate import Accelerator, notebook_launcher

        def train(rate):
            nn.Linear(2, 2).cuda()  # DDP101
            accelerator = Accelerator()
            nn.Linear(2, 2).cuda()

        notebook_launcher(train, args=(0.1,), num_processes=2)
        """
    )


def test_device_maps_under_accelerate(check):
    check(
        """
        from accelerate import Accelerator, PartialState
        from transformers import AutoModelForCausalLM as Model
        accelerator = Accelerator()
        Model.from_pretrained("a", device_map="auto")  # DDP305: warning
        Model.from_pretrained("a", device_map={"": 0})  # DDP305
        Model.from_pretrained("a", device_map={"": PartialState().local_process_index})
        Model.from_pretrained("a")
        """
    )


@pytest.mark.parametrize("name", ["gather", "gather_for_metrics", "reduce"])
def test_tensors_are_sent_as_they_are(check, name):
    check(
        f"""
        from accelerate import Accelerator
        accelerator = Accelerator()
        count = torch.tensor([8])
        accelerator.{name}(count)  # DDP402: error
        accelerator.{name}((count.cuda(), torch.ones(2)))  # DDP402
        accelerator.{name}(count.to(accelerator.device)).sum().item()
        accelerator.{name}(unknown())
        """
    )
