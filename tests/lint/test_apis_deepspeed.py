"""DeepSpeed: init_distributed() does not bind, initialize() does."""

from __future__ import annotations


def test_a_group_without_a_bound_device(check):
    check(
        """
        import deepspeed
        deepspeed.init_distributed("nccl")  # DDP201
        nn.Linear(2, 2).cuda()  # DDP101
        """
    )


def test_initialize_opens_the_group_binds_and_moves(check):
    check(
        """
        import deepspeed

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)

            def forward(self, x):
                return self.fc(x) + self.fc(torch.zeros(2))  # DDP105

        early = nn.Linear(2, 2).cuda()  # DDP101
        engine, optimizer, _, _ = deepspeed.initialize(model=Net(), config="ds.json")
        late = nn.Linear(2, 2).cuda()
        engine(torch.ones(2).to(engine.device))
        torch.ones(2, device=f"cuda:{engine.local_rank}")
        torch.ones(2, device=f"cuda:{engine.global_rank}")  # DDP203
        """
    )


def test_its_accelerator_is_cuda(check):
    check(
        """
        import deepspeed
        from deepspeed.accelerator import get_accelerator
        deepspeed.init_distributed()
        get_accelerator().set_device(int(os.environ["LOCAL_RANK"]))
        nn.Linear(2, 2).to(get_accelerator().current_device_name())
        nn.Linear(2, 2).to(get_accelerator().device_name(0))  # DDP103
        nn.Linear(2, 2).cuda()
        """
    )


def test_the_global_rank_to_its_accelerator(check):
    check(
        """
        import deepspeed
        from deepspeed.accelerator import get_accelerator
        deepspeed.init_distributed(dist_backend="nccl")
        get_accelerator().set_device(deepspeed.comm.get_rank())  # DDP203
        """
    )


def test_its_launcher_passes_the_local_rank(check):
    check(
        """
        import deepspeed
        from deepspeed.accelerator import get_accelerator
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        parser = deepspeed.add_config_arguments(parser)
        args = parser.parse_args()
        get_accelerator().set_device(args.local_rank)
        deepspeed.init_distributed()
        nn.Linear(2, 2).cuda()
        """
    )
