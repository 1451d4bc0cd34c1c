"""Libraries that start the ranks or bind them: each by its own facts."""

from __future__ import annotations

import pytest


def test_detectron2_launches_bound_processes(check):
    check(
        """
        from detectron2.engine import DefaultTrainer, launch

        def main(args):
            nn.Linear(2, 2).cuda()
            torch.ones(1, device="cuda:0")  # DDP103
            DefaultTrainer(args).train()

        launch(main, 8, args=({},))
        """
    )


def test_detectron2_with_one_gpu_is_no_job(check):
    check(
        """
        from detectron2.engine import launch

        def main():
            torch.ones(1, device="cuda:0")

        launch(main, num_gpus_per_machine=1)
        """
    )


def test_detectron2_on_several_machines_with_one_gpu_each(check):
    check(
        """
        from yolox.core import launch

        def main():
            torch.ones(1, device="cuda:3")  # DDP103

        launch(main, 1, 4)
        """
    )


def test_a_trainer_built_before_launch(check):
    check(
        """
        from detectron2.engine import DefaultTrainer, launch
        trainer = DefaultTrainer({})  # DDP210
        launch(trainer.train(), num_gpus_per_machine=2)
        """
    )


def test_what_opens_a_context_does_so_in_a_class_that_derives_from_it(check):
    check(
        """
        from detectron2.engine import DefaultTrainer, launch

        class Trainer(DefaultTrainer):
            @classmethod
            def build_evaluator(cls, cfg, name):
                return None

        trainer = Trainer({})  # DDP210
        launch(trainer.train(), num_gpus_per_machine=2)
        """
    )


def test_timm_fills_its_arguments_in(check):
    check(
        """
        from timm import utils
        args = argparse.ArgumentParser().parse_args()
        device = utils.init_distributed_device(args)
        if args.distributed:
            DDP(nn.Linear(2, 2).to(device), device_ids=[device])
            DDP(nn.Linear(2, 2).to(device), device_ids=[args.local_rank])
        torch.ones(1).cuda()
        torch.ones(1).to(f"cuda:{args.rank}")  # DDP203
        if utils.is_primary(args):
            torch.ones(1).to("cuda:0")
        """
    )


def test_fairseq_calls_main_in_bound_processes(check):
    check(
        """
        from fairseq import distributed_utils

        def main(cfg):
            torch.ones(1).cuda()
            torch.ones(1).to("cuda:0")  # DDP103

        distributed_utils.call_main({}, main)
        """
    )


def test_ignite_runs_its_function_with_the_local_rank(check):
    check(
        """
        import ignite.distributed as idist

        def training(local_rank, config):
            torch.ones(1).cuda()
            torch.ones(1).to(f"cuda:{local_rank}")
            torch.ones(1).to(f"cuda:{idist.get_rank()}")  # DDP203
            torch.ones(1).to("cuda:0")  # DDP103
            model = idist.auto_model(nn.Linear(2, 2))
            model(torch.ones(2).to(idist.device()))

        with idist.Parallel(backend="nccl", nproc_per_node=2) as parallel:
            parallel.run(training, {})
        """
    )


def test_ignite_under_torchrun(check):
    check(
        """
        import ignite.distributed as idist

        def training(local_rank):
            torch.ones(1).to("cuda:0")  # DDP103

        with idist.Parallel(backend="nccl") as parallel:
            parallel.run(training)
        """
    )


def test_ignite_without_a_backend_is_one_process(check):
    check(
        """
        import ignite.distributed as idist

        def training(local_rank):
            torch.ones(1).to("cuda:0")

        with idist.Parallel(backend=None) as parallel:
            parallel.run(training)
        """
    )


def test_horovod_leaves_binding_to_the_program(check):
    check(
        """
        import horovod.torch as hvd
        hvd.init()
        early = nn.Linear(2, 2).cuda()  # DDP101
        torch.cuda.set_device(hvd.local_rank())  # DDP202
        torch.cuda.set_device(hvd.rank())  # DDP203
        """
    )


def test_horovod_bound(check):
    check(
        """
        import horovod.torch as hvd
        hvd.init()
        torch.cuda.set_device(hvd.local_rank())
        nn.Linear(2, 2).cuda()
        """
    )


def test_apex_takes_no_device(check):
    check(
        """
        from apex.parallel import DistributedDataParallel
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        DistributedDataParallel(nn.Linear(2, 2).cuda())
        """
    )


def test_ray_workers_are_bound(check):
    check(
        """
        import ray.train.torch
        from ray.train import ScalingConfig
        from ray.train.torch import TorchTrainer

        def loop(config):
            torch.ones(1).cuda()
            model = ray.train.torch.prepare_model(nn.Linear(2, 2))
            model(torch.ones(2, device=ray.train.torch.get_device()))

        TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=4, use_gpu=True)).fit()
        """
    )


def test_composer_binds(check):
    check(
        """
        from composer import Trainer
        from composer.utils import dist as cdist
        dist.init_process_group("nccl")
        trainer = Trainer(model=nn.Linear(2, 2))
        torch.ones(1).cuda()
        torch.ones(1).to(f"cuda:{cdist.get_local_rank()}")
        torch.ones(1).to(f"cuda:{cdist.get_global_rank()}")  # DDP203
        """
    )


def test_colossalai_binds(check):
    check(
        """
        import colossalai
        colossalai.launch_from_torch(config={})
        torch.ones(1).cuda()
        torch.ones(1).to("cuda:0")  # DDP103
        """
    )


SUBMITIT = """
import submitit
import trainer

class Trainer:
    def __init__(self, args):
        self.args = args

    def __call__(self):
        environment = submitit.JobEnvironment()
        self.args.gpu = environment.local_rank
        self.args.rank = environment.global_rank
        self.args.world_size = environment.num_tasks
        trainer.main(self.args)

def main():
    torch.ones(1, device="cuda")  # no rank does it, nor do they start from here
    args = argparse.Namespace(gpu=None)
    executor = submitit.AutoExecutor(folder="jobs")
    executor.update_parameters(name="train", {settings})
    executor.submit(Trainer(args))

main()
"""


def test_submitit_runs_a_callable_in_every_task(check):
    check(
        SUBMITIT.replace("{settings}", "nodes=2, gpus_per_node=8, tasks_per_node=8"),
        {
            "trainer.py": """
            import torch
            import torch.distributed as dist

            def main(args):
                torch.cuda.set_device(args.gpu)
                dist.init_process_group("nccl", rank=args.rank, world_size=args.world_size)
                torch.ones(1, device="cuda")
                torch.ones(1, device=args.rank)  # DDP203
                torch.ones(1, device=0)  # DDP103
            """
        },
    )


@pytest.mark.parametrize(
    "settings",
    ["nodes=2", "nodes=2, tasks_per_node=1", "tasks_per_node=8, slurm_gpus_per_task=1"],
)
def test_a_task_that_has_its_gpus_for_itself(check, settings):
    check(
        SUBMITIT.replace("{settings}", settings),
        {
            "trainer.py": """
            import torch
            import torch.distributed as dist

            def main(args):
                dist.init_process_group("nccl", rank=args.rank, world_size=args.world_size)
                torch.ones(1, device=0)
            """
        },
    )


def test_submitit_passes_arguments(check):
    check("""
    import submitit

    def main(device, *, index):
        dist.init_process_group("nccl")  # DDP201
        torch.ones(1, device=device)  # DDP102
        torch.ones(1, device=index)

    executor = submitit.SlurmExecutor("jobs")
    executor.update_parameters(ntasks_per_node=4)
    executor.submit(main, "cuda", index=3)  # DDP103
    """)


def test_ignite_runs_the_function_of_an_engine(check):
    check(
        """
        import ignite.distributed as idist
        from ignite.engine import Engine, Events

        def training(local_rank, config):
            def step(engine, batch):
                return batch.to(config["device"])

            trainer = Engine(step)

            @trainer.on(Events.COMPLETED)
            def log(engine):
                print(engine.state.output)

            trainer.run([torch.ones(1)])

        with idist.Parallel(backend="nccl", nproc_per_node=2) as parallel:
            parallel.run(training, {"device": "cuda:0"})  # DDP103
            parallel.run(training, {"device": "cuda"})
        """
    )


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ("num_workers=16, use_gpu=True", "DDP203"),
        ("num_workers=1, use_gpu=True", None),
        ("num_workers=16, use_gpu=False", None),
    ],
)
def test_ray_has_as_many_workers_as_its_scaling_config_says(check, config, code):
    check(
        f"""
        from ray import train
        from ray.train.torch import TorchTrainer

        def loop():
            device = torch.device("cuda", train.get_context().get_world_rank())  # {code}
            model = nn.Linear(1, 1).to(device)
            model(torch.ones(1, device=device))

        TorchTrainer(loop, scaling_config=train.ScalingConfig({config})).fit()
        """
    )


def test_dora_binds_before_it_opens_the_group(check):
    check(
        """
        from dora import distrib, hydra_main

        @hydra_main(config_path="conf", config_name="config", version_base="1.1")  # DDP103
        def main(cfg):
            distrib.init()
            spec = distrib.get_distrib_spec()
            model = DDP(nn.Linear(2, 2).cuda(), device_ids=[spec.local_rank])
            torch.ones(1, device=cfg.gpu)
            torch.ones(1, device=distrib.rank())  # DDP203
            if distrib.is_master():
                torch.ones(1, device=0)

        main()
        """,
        {"conf/config.yaml": "gpu: 1\n"},
    )


def test_horovod_leaves_the_gpu_to_the_program_and_knows_the_local_rank(check):
    found = check(
        """
        import horovod.torch as hvd

        hvd.init()
        model = nn.Linear(1, 1)
        if torch.cuda.is_available():
            model.cuda()  # DDP101
        """
    )
    assert found["DDP101"].fix is not None
    added = [edit.content.strip() for edit in found["DDP101"].fix.edits]
    assert added == ["torch.cuda.set_device(hvd.local_rank())"]
