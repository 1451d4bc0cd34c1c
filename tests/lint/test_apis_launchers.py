"""Libraries that start the ranks or bind them: each by its own facts."""

from __future__ import annotations


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
