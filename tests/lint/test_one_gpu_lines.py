"""Lines beside a program that give each rank one GPU: cuda:0 is its own then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

PROGRAM = """
rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("nccl", "env://", rank=rank, world_size=size){}
model = DDP(nn.Linear(1, 1).to("cuda:0"))  {}
torch.ones(1).cuda()  {}
dist.barrier()  {}
"""
ALONE = PROGRAM.format("", "", "", "")
TOGETHER = PROGRAM.format("  # DDP201", "# DDP103", "# DDP101", "# DDP401")


@pytest.mark.parametrize(
    "lines",
    [
        "srun --ntasks-per-node=4 --gpus-per-task=1 python train.py",
        "#SBATCH --gpus-per-task 1\nsrun python $HOME/train.py",
        "torchrun --virtual-local-rank --nproc-per-node 4 train.py",
        'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\nexec "$@"',
        "ROCR_VISIBLE_DEVICES=${OMPI_COMM_WORLD_LOCAL_RANK} python train.py",
        'CUDA_VISIBLE_DEVICES="$PALS_LOCAL_RANKID" $@',
    ],
)
@pytest.mark.parametrize("file", ["run.sh", "scripts/node.slurm", "README.md"])
def test_a_rank_that_sees_its_own_gpu_only(check: Check, file: str, lines: str) -> None:
    check(ALONE, {file: lines + "\n"})


@pytest.mark.parametrize(
    "lines",
    [
        "srun --gpus-per-task=1 --gpu-bind=none python train.py",
        "srun --gpus-per-task=4 python train.py",
        "#SBATCH --ntasks=1\n#SBATCH --gpus-per-task=1\npython train.py",
        "srun -n 1 --gpus-per-task=1 python train.py",
        "srun --gpus-per-task=1 python other.py",
        "# srun --gpus-per-task=1 python train.py\nsrun python train.py",
        "CUDA_VISIBLE_DEVICES=$GPUS python train.py",
        "CUDA_VISIBLE_DEVICES=0,1 srun python train.py",
        "CUDA_VISIBLE_DEVICES=$SLURM_LOCALID python other.py",
    ],
)
def test_ranks_that_see_all_gpus(check: Check, lines: str) -> None:
    check(TOGETHER, {"run.sh": lines + "\n"})


def test_processes_that_the_program_starts_share_what_it_sees(check: Check) -> None:
    check(
        """
        def train(rank):
            dist.init_process_group("nccl", "tcp://localhost:1", rank=rank, world_size=2)
            DDP(nn.Linear(1, 1).to("cuda:0"))  # DDP103

        if __name__ == "__main__":
            mp.spawn(train, nprocs=2)
        """,
        {"run.sh": "srun --gpus-per-task=1 python train.py\n"},
    )


MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: &replica
      template:
        spec:
          containers:
            - image: train:latest
              command: {command}
              resources:
                limits:
                  nvidia.com/gpu: {gpus}
    Worker:
      replicas: 3
"""


@pytest.mark.parametrize("command", ['["python", "/opt/train.py"]', '["--backend", "nccl"]'])
@pytest.mark.parametrize("gpus", ["1", '"1"'])
@pytest.mark.parametrize("file", ["pytorch_job.yaml", "k8s/train.yml", "v1/nccl-job.yaml"])
@pytest.mark.parametrize("entry", ["train.py", "src/train.py"])
def test_a_pod_that_has_one_gpu(
    check: Check, entry: str, file: str, gpus: str, command: str
) -> None:
    check(ALONE, {file: MANIFEST.format(command=command, gpus=gpus)}, entry=entry)


@pytest.mark.parametrize(
    "manifest",
    [
        MANIFEST.format(command='["python", "train.py"]', gpus="4"),
        MANIFEST.format(command='["python", "other.py"]', gpus="1"),
        MANIFEST.format(command='["python", "train.py"]', gpus="1").replace("PyTorchJob", "Pod"),
        MANIFEST.format(command='["python", "train.py"]', gpus="1").replace("nvidia", "# nvidia"),
        MANIFEST.format(command='["python", "train.py"]', gpus="1")
        + MANIFEST.format(command='["python", "train.py"]', gpus="8"),
    ],
)
def test_pods_that_do_not_show_it(check: Check, manifest: str) -> None:
    check(TOGETHER, {"job.yaml": manifest})
