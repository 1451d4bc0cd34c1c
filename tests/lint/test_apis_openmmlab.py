"""mmengine and mmcv: init_dist() binds before it opens the group."""

from __future__ import annotations


def test_init_dist_binds(check):
    check(
        """
        from mmcv.runner import get_dist_info, init_dist, load_checkpoint
        from mmcv.parallel import MMDistributedDataParallel
        init_dist("pytorch")
        rank, world_size = get_dist_info()
        model = nn.Linear(2, 2).cuda()
        load_checkpoint(model, "a.pth")  # DDP104: warning
        load_checkpoint(model, "a.pth", map_location="cpu")
        MMDistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
        MMDistributedDataParallel(nn.Linear(2, 2).cuda(), device_ids=[0])  # DDP301
        torch.ones(1, device=f"cuda:{rank}")  # DDP203
        """
    )


def test_mmengine_names(check):
    check(
        """
        from mmengine.device import get_device
        from mmengine.dist import get_local_rank, init_dist, is_main_process, master_only
        early = nn.Linear(2, 2).to(get_device())  # DDP102
        init_dist("pytorch")
        late = nn.Linear(2, 2).to(get_device())
        torch.ones(1, device=f"cuda:{get_local_rank()}")
        if is_main_process():
            torch.ones(1, device="cuda:0")

        @master_only
        def save():
            torch.ones(1, device="cuda:0")

        save()
        """
    )


def test_a_runner_without_a_launcher_is_one_process(check):
    check(
        """
        from mmengine.runner import Runner
        nn.Linear(2, 2).cuda()
        Runner(model=nn.Linear(2, 2), launcher="none").train()
        """
    )


def test_a_detector_on_its_default_card(check):
    found = check(
        """
        from mmdet.apis import init_detector
        from mmengine.dist import get_local_rank, init_dist
        init_dist("pytorch")
        init_detector("a.py", "a.pth")  # DDP103
        init_detector("a.py", "a.pth", device="cuda")
        init_detector("a.py", "a.pth", device=f"cuda:{get_local_rank()}")
        """
    )
    assert found["DDP103"].message.startswith("the default of mmdet.apis.init_detector() is used")
