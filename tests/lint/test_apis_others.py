"""Other libraries that use a GPU."""

from __future__ import annotations

import pytest

SETUP = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


def test_a_dali_pipeline_function(check):
    check(
        SETUP
        + """
from nvidia.dali import pipeline_def

@pipeline_def
def plain(train):
    return None

@pipeline_def(batch_size=8, device_id=0)  # DDP103
def fixed():
    return None

plain(train=True, device_id=local_rank)
plain(train=False, device_id=0)  # DDP103
plain(train=False, device_id=dist.get_rank())  # DDP203
plain(train=False, device_id=None)
fixed(device_id=local_rank)
fixed()
"""
    )


def test_a_dali_pipeline_class(check):
    check(
        SETUP
        + """
from nvidia.dali.pipeline import Pipeline

class Train(Pipeline):
    def __init__(self, size, threads, device_id):
        super().__init__(size, threads, device_id, seed=1)

Train(8, 2, local_rank)
Train(8, 2, 1)  # DDP103
Pipeline(8, 2, 0)  # DDP103
"""
    )


def test_a_checkpoint_loader_without_a_mapping(check):
    check(
        SETUP
        + """
from monai.handlers import CheckpointLoader
model = nn.Linear(2, 2).cuda()
CheckpointLoader("a.pt", {"model": model})  # DDP104
CheckpointLoader("a.pt", {"model": model}, map_location="cpu")
"""
    )


def test_a_default_card(check):
    check(
        """
        import clip
        dist.init_process_group("nccl")
        clip.load("ViT-B/32")  # DDP102
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # DDP202
        clip.load("ViT-B/32")
        """
    )


def test_metrics_and_transforms_move_like_modules(check):
    check(
        SETUP
        + """
import torchaudio, torchmetrics

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.spectrum = torchaudio.transforms.MelSpectrogram()
        self.inside = torchmetrics.MeanMetric()
        self.meters = {"train": torchmetrics.MeanMetric()}  # DDP106

    def forward(self, x):
        y = self.spectrum(self.fc(x))
        self.inside(y)
        self.meters["train"](y)
        return y

Net().to(local_rank)(torch.ones(2, device=local_rank))
"""
    )


def test_a_library_that_knows_the_first_card_only(check):
    check(
        """
        def worker(rank, ranks):
            torch.cuda.set_device(rank)
            import taichi as ti
            ti.init(arch=ti.cuda)  # DDP103
            ti.init(arch=ti.cpu)
            dist.init_process_group("nccl", rank=rank, world_size=ranks)

        mp.spawn(worker, args=(2,), nprocs=2)
        """
    )


BUILT = """
import timm, torchvision
from torchvision import models
from torchvision.models import resnet18
parser = argparse.ArgumentParser()
parser.add_argument("--arch", default="resnet18")
parser.add_argument("--model")
args = parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "model",
    [
        "resnet18(weights=None)",
        "models.detection.maskrcnn_resnet50_fpn()",
        'models.__dict__["vgg16"](pretrained=True)',
        "models.__dict__[args.arch]()",
        "getattr(torchvision.models, args.arch)()",
        "timm.create_model('vit_tiny', pretrained=True)",
    ],
)
def test_functions_that_make_a_module(check, model):
    check(
        BUILT
        + f"""
DDP({model}, device_ids=[local_rank])  # DDP304
DDP({model}.cuda(), device_ids=[local_rank])
built = {model}
built.fc = nn.Linear(8, 8)
DDP(built.to(local_rank), device_ids=[local_rank])
"""
    )


@pytest.mark.parametrize(
    "value",
    [
        "models.list_models()",
        "models.feature_extraction.create_feature_extractor(resnet18().cuda(), [])",
        "models.__dict__[args.model]()",
        "timm.data.create_loader()",
    ],
)
def test_functions_that_may_make_none(check, value):
    check(BUILT + f"DDP({value}, device_ids=[local_rank])")


def test_torchrec_shards_to_the_device_that_it_is_given(check):
    check(
        """
        from torchrec.distributed.model_parallel import DistributedModelParallel as DMP
        dist.init_process_group("nccl")  # DDP201
        device = torch.device("cuda")
        DMP(unknown(), device=device)  # DDP102
        torch.ones(2, device=device)  # DDP102
        """
    )
