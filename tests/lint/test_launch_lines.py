"""Command lines beside a program decide whether its Trainer is one of several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lint.conftest import Check

PROGRAM = """
from transformers import Trainer, TrainingArguments
model = nn.Linear(2, 2).to("cuda:0"){}
Trainer(model, TrainingArguments("out")).train()
"""
ONE = PROGRAM.format("")
SEVERAL = PROGRAM.format("  # DDP103: error")


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node 4 train.py --epochs 3",
        "torchrun --nnodes=2 --nproc-per-node=8 ./train.py",
        "/opt/conda/bin/torchrun --standalone --nproc_per_node=gpu train.py",
        'torchrun --nproc_per_node="$GPUS" train.py',
        "python3 -m torch.distributed.launch --nproc_per_node 2 --use_env train.py",
        "srun python -m torch.distributed.run --nproc_per_node=$(nvidia-smi -L | wc -l) train.py",
        "torchrun --nproc_per_node 4 -m train",
        "CUDA_VISIBLE_DEVICES=0,1 accelerate launch train.py",
        "accelerate launch --multi_gpu train.py",
        "accelerate launch --num_processes=2 --mixed_precision bf16 train.py",
        "accelerate-launch train.py",
        "accelerate launch -m train",
        "deepspeed train.py --deepspeed ds.json",
        "deepspeed --include localhost:0,1 --master_port 29500 train.py",
        "deepspeed --num_gpus 2 train.py",
        "  torchrun \\\n    --nproc_per_node 4 \\\n    train.py \\\n    --epochs 3",
        'export GPUS=4\nOPTIONS="--nnodes 1 --nproc_per_node ${GPUS}"\ntorchrun $OPTIONS train.py',
        "OPTIONS=(\n  --nnodes 1\n  --nproc_per_node 4\n)\ntorchrun ${OPTIONS[@]} train.py",
        'OPTIONS="\n  --nnodes 1 \\\n  --nproc_per_node 4\n"\ntorchrun $OPTIONS train.py',
        "# python train.py \\\ntorchrun --nproc_per_node 4 train.py",
        'cmd="accelerate launch --num_processes 4 train.py \\\n  $options"\neval $cmd',
        "C=(${CUDA//,/ })\nN=${#C[@]}\ntorchrun --nproc_per_node=$N train.py",
        "torchrun --nproc_per_node=<N> train.py [options]",
        "CUDA_VISIBLE_DEVICES=0 python eval.py\naccelerate launch train.py",
        "CUDA_VISIBLE_DEVICES=0\nexport CUDA_VISIBLE_DEVICES=0,1\naccelerate launch train.py",
        "GPUS=${1:-4}\ntorchrun --nproc_per_node $GPUS train.py",
        "if (( N > 1 )); then torchrun --nproc_per_node $N train.py; else python train.py; fi",
        'START="torchrun --nproc_per_node 4"\n$START train.py',
        "MAIN=$PWD/train.py\ntorchrun --nproc_per_node 4 $MAIN",
        "if big; then GPUS=8; else\nGPUS=1\nfi\ntorchrun --nproc_per_node $GPUS train.py",
        "torchrun --nproc_per_node 4 $HOME/work/train.py",
        'torchrun --nproc_per_node="4" train.py',
        "GPUS=${GPUS:-4}\ntorchrun --nproc_per_node $GPUS train.py",
        "CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node $2 train.py",
        "export NAME=a CUDA_VISIBLE_DEVICES=0,1\naccelerate launch train.py",
        "accelerate launch --gpu_ids 0,1 train.py",
        "accelerate launch --num_machines 2 --num_processes 8 train.py",
        "deepspeed --include host1:0,1@host2:0,1 train.py",
        "#SBATCH --gres=gpu:a100:4\naccelerate launch train.py",
        "#SBATCH --gres=gpu:10\naccelerate launch train.py",
        "srun --gres=gpu:1 python eval.py\nsrun --gres=gpu:4 accelerate launch train.py",
        "docker run --gpus all image accelerate launch train.py",
    ],
)
def test_a_line_that_starts_several_ranks(check: Check, line: str) -> None:
    check(SEVERAL, {"run.sh": f"#!/bin/bash\nset -e\n{line}\n"})


@pytest.mark.parametrize(
    "line",
    [
        "python train.py",
        "torchrun train.py",
        "torchrun --nproc_per_node 1 train.py",
        "torchrun --nnodes 4 --nproc_per_node=1 train.py",
        "GPUS=1\ntorchrun --nproc_per_node $GPUS train.py",
        "torchrun --nproc_per_node 4 other.py",
        "torchrun --nproc_per_node 4 other/train.py",
        "torchrun --nproc_per_node 4 pretrain.py",
        "torchrun --nproc_per_node 4 other.py --then train.py",
        "# torchrun --nproc_per_node 4 train.py",
        "python train.py  # or torchrun --nproc_per_node 4 train.py",
        "accelerate launch --num_processes 1 train.py",
        "accelerate launch --cpu train.py",
        "CUDA_VISIBLE_DEVICES=0 accelerate launch train.py",
        'export CUDA_VISIBLE_DEVICES="3"\ndeepspeed train.py',
        "deepspeed --num_gpus=1 train.py",
        "CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node $(wc -l gpus) train.py",
        "deepspeed --include localhost:0 train.py",
        "deepspeed -i localhost:0 train.py",
        "deepspeed --include host1:0@host2:0 train.py",
        'torchrun --nproc_per_node="1" train.py',
        'GPUS="1"\ntorchrun --nproc_per_node="$GPUS" train.py',
        "GPUS=${GPUS:-1}\ntorchrun --nproc_per_node $GPUS train.py",
        "export CUDA_VISIBLE_DEVICES=0 OMP_NUM_THREADS=4\naccelerate launch train.py",
        "export NAME=a CUDA_VISIBLE_DEVICES=0\naccelerate launch train.py",
        "setenv CUDA_VISIBLE_DEVICES 0\naccelerate launch train.py",
        "CUDA_VISIBLE_DEVICES=0, accelerate launch train.py",
        "CUDA_VISIBLE_DEVICES=$1 accelerate launch train.py",
        "for gpu in 0 1; do\nCUDA_VISIBLE_DEVICES=$gpu deepspeed train.py &\ndone",
        "#SBATCH --gres=gpu:1\naccelerate launch train.py",
        "#SBATCH --gres=gpu:a100:1\naccelerate launch train.py",
        "#SBATCH --gpus-per-node=1\ndeepspeed train.py",
        "#PBS -l select=1:ncpus=8:ngpus=1\naccelerate launch train.py",
        "accelerate launch --gpu_ids 0 train.py",
        "accelerate launch --num_machines 2 --num_processes 2 train.py",
        "CUDA_VISIBLE_DEVICES= torchrun --nproc_per_node 4 train.py",
        "export CUDA_VISIBLE_DEVICES=-1\ntorchrun --nproc_per_node 4 train.py",
        "#SBATCH -G 1\ndeepspeed train.py",
        "#SBATCH --gres=gpu\ndeepspeed train.py",
        "srun --gres=gpu:1 accelerate launch train.py",
        "docker run --gpus 1 image accelerate launch train.py",
        "docker run --gpus '\"device=0\"' image accelerate launch train.py",
        '#BSUB -gpu "num=1"\ndeepspeed train.py',
        "torchrun $UNSEEN train.py",
        "pip install deepspeed; python train.py",
        "srun python train.py",
        "torchrun",
        "",
    ],
)
def test_lines_that_start_one_process_or_something_else(check: Check, line: str) -> None:
    check(ONE, {"run.sh": f"{line}\n"})


def test_a_job_file_that_puts_its_command_together(check: Check) -> None:
    job = """\
    #!/bin/bash
    #SBATCH --nodes=4
    export GPUS_PER_NODE=4
    head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    export LAUNCHER="accelerate launch \\
        --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) \\
        --num_machines $SLURM_NNODES \\
        --main_process_ip $head_node_ip \\
        "
    export SCRIPT="${CODE:-/code}/train.py"
    export ARGUMENTS=" \\
        --mixed_precision fp16 \\
        "
    export CMD="$LAUNCHER $SCRIPT $ARGUMENTS"
    srun $CMD
    """
    check(SEVERAL, {"job.slurm": job})
    job = job.replace("accelerate launch", "python -u -m torch.distributed.run")
    job = job.replace("--num_processes $((SLURM_NNODES * GPUS_PER_NODE))", "--nproc_per_node 4")
    check(SEVERAL, {"job.slurm": job.replace("srun $CMD", 'srun bash -c "$CMD" 2>&1 | tee log')})


@pytest.mark.parametrize(
    ("settings", "program"),
    [
        ("distributed_type: MULTI_GPU\nnum_processes: 4\n", SEVERAL),
        ("compute_environment: LOCAL_MACHINE\n", SEVERAL),
        ("distributed_type: MULTI_GPU\nnum_processes: 1\n", ONE),
        ("distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 2\n", ONE),
        ("distributed_type: 'NO'\nnum_processes: 4\n", ONE),
        ("distributed_type: MULTI_CPU\nuse_cpu: true\n", ONE),
    ],
)
def test_a_configuration_of_accelerate_decides(check: Check, settings: str, program: str) -> None:
    line = "accelerate launch --config_file configs/a.yaml train.py"
    check(program, {"run.sh": line, "configs/a.yaml": settings})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "Train with:\n\n```bash\n$ torchrun --nproc_per_node 4 train.py\n```\n"),
        ("README.md", "Start it by `torchrun --nproc_per_node 4 train.py`, then wait.\n"),
        ("README.rst", "   $ torchrun --nproc_per_node 4 train.py\n"),
        ("Makefile", "GPUS := 4\ntrain:\n\ttorchrun --nproc_per_node $(GPUS) train.py\n"),
        ("job.slurm", "#SBATCH --gres=gpu:4\nsrun torchrun --nproc_per_node 4 train.py\n"),
        ("scripts/run.sh", "torchrun --nproc_per_node 4 train.py\n"),
        ("scripts/v1/run.sh", "torchrun --nproc_per_node 4 train.py\n"),
        ("scripts/run.sh", "cd $(dirname $0)/..\ntorchrun --nproc_per_node 4 train.py\n"),
        ("k8s/job.yaml", "  command: torchrun --nproc_per_node 4 train.py\n"),
    ],
)
def test_where_command_lines_stand(check: Check, name: str, text: str) -> None:
    check(SEVERAL, {name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "Use torchrun to start train.py with --nproc_per_node 4.\n"),
        ("README.md", "We tried deepspeed. train.py needs it.\n"),
        ("notes.md", "torchrun --nproc_per_node 4 train.py\n"),
        ("other/run.sh", "torchrun --nproc_per_node 4 train.py\n"),
        ("run.sh", "torchrun --nproc_per_node 4 train.py\n" + "#" * (300 << 10)),
    ],
)
def test_where_they_are_not_looked_for(check: Check, name: str, text: str) -> None:
    check(ONE, {name: text})


def test_a_program_that_tells_how_it_is_run(check: Check) -> None:
    check(
        f'"""Run it by\n\n    torchrun --nproc_per_node 4 train.py\n"""\n{SEVERAL}',
    )


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("torchrun --nproc_per_node 4 tools/sft/train.py", SEVERAL),
        ("torchrun --nproc_per_node 4 $ROOT/sft/train.py", SEVERAL),
        ("torchrun --nproc_per_node 4 /home/me/project/tools/sft/train.py", SEVERAL),
        ("cd tools/sft && torchrun --nproc_per_node 4 train.py", SEVERAL),
        ("torchrun --nproc_per_node 4 -m tools.sft.train", SEVERAL),
        ("torchrun --nproc_per_node 4 sft/train.py", SEVERAL),
        ("torchrun --nproc_per_node 4 train.py", ONE),
        ("torchrun --nproc_per_node 4 tools/train.py", ONE),
        ("cd tools && torchrun --nproc_per_node 4 train.py", ONE),
    ],
)
def test_a_program_below_the_folder_of_the_line(check: Check, line: str, program: str) -> None:
    files = {"run.sh": line, "tools/train.py": "", "train.py": ""}
    check(program, files, entry="tools/sft/train.py")


def test_a_package_that_is_run(check: Check) -> None:
    files = {"README.md": "    torchrun --nproc_per_node 4 -m tools.sft\n"}
    check(SEVERAL, files, entry="tools/sft/__main__.py")


def test_the_launcher_of_one_program_says_nothing_of_its_neighbour(check: Check) -> None:
    check(ONE, {"run.sh": "torchrun --nproc_per_node 4 train.py\npython eval.py"}, entry="eval.py")


def test_outside_the_project_nothing_is_looked_at(check: Check) -> None:
    files = {"run.sh": "torchrun --nproc_per_node 4 own/train.py", "own/setup.py": ""}
    check(ONE, files, entry="own/train.py")


def test_auto_is_wrong_where_a_line_starts_several(check: Check) -> None:
    check(
        """
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")  # DDP305: warning
        Trainer(model).train()
        """,
        {"run.sh": "torchrun --nproc_per_node 4 train.py"},
    )


def test_a_script_of_variables_without_end(check: Check) -> None:
    check(ONE, {"run.sh": f"A={'$A' * 1000}\nB={'$B$A' * 500}\ntorchrun $A $B train.py\n"})
