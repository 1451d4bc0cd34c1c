"""Runs other people's programs and trainers on virtual GPUs, and on the plain CPU, side by side.

Each runs under torchrun with four ranks (Lightning starts its own) on four virtual GPUs, and again
with gloo on the CPU. It passes if it ends well, every rank opened its own GPU and no other, and the
last loss is the same number. The packages come from the registry into a virtual environment of
their own that sees this one's torch.

    python benchmarks/virtual_programs.py [--venv FOLDER] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.virtual import environment, ledger

HERE = Path(__file__).parent / "programs"
PACKAGES = [
    "accelerate",
    "transformers",
    "tokenizers",
    "huggingface_hub",
    "safetensors",
    "regex",
    "requests",
    "tqdm",
    "idna",
    "charset-normalizer",
    "urllib3",
    "certifi",
    "lightning",
    "lightning-utilities",
    "pytorch-lightning",
    "torchmetrics",
    "timm",
    "hf-xet",
    "httpx",
    "httpcore",
    "h11",
    "anyio",
    "sniffio",
    "psutil",
    "typer",
    "shellingham",
    "x-transformers",
    "vit-pytorch",
    "einops",
    "einx",
    "loguru",
    "pytorch-ignite",
    "fairscale",
    "torchdata",
    "frozendict",
    "expecttest",
    "httpx2",
    "httpcore2",
    "truststore",
    "torch-einops-utils",
    "pillow",
    "torchvision==0.15.2",
]
# That torchvision: the newer ones do not import where their compiled half finds no CUDA.


@dataclass(frozen=True)
class Program:
    """script: a file of programs/, or a module of an installed package.

    launched: by torchrun, or it starts its ranks itself. on_cpu: it can be compared with the plain
    CPU.
    """

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    launched: bool = True
    on_cpu: bool = True
    ranks: int = 4


SCRIPTS = "accelerate.test_utils.scripts"
PROGRAMS = [
    # Unmodified, as packaged; they assert for themselves, and choose the GPU where there is one.
    # Two of them hold figures for two ranks.
    Program("accelerate test", f"{SCRIPTS}.test_script", on_cpu=False, ranks=2),
    Program("accelerate test_sync", f"{SCRIPTS}.test_sync", on_cpu=False),
    Program("accelerate test_ops", f"{SCRIPTS}.test_ops", on_cpu=False),
    Program(
        "accelerate test_distributed_data_loop",
        f"{SCRIPTS}.test_distributed_data_loop",
        on_cpu=False,
        ranks=2,
    ),
    Program("accelerate test_ddp_comm_hook", f"{SCRIPTS}.test_ddp_comm_hook", on_cpu=False),
    # Other people's trainers and models behind a few lines that feed them.
    Program("accelerate loop", "accelerate_loop.py"),
    Program("lightning ddp", "lightning_ddp.py", launched=False),
    Program(
        "lightning ddp 16-mixed", "lightning_ddp.py", ("16-mixed",), launched=False, on_cpu=False
    ),
    Program(
        "lightning ddp bf16-mixed",
        "lightning_ddp.py",
        ("bf16-mixed",),
        launched=False,
        on_cpu=False,
    ),
    Program("transformers Trainer", "transformers_trainer.py"),
    Program("transformers Trainer fp16", "transformers_trainer.py", ("fp16",), on_cpu=False),
    Program(
        "transformers Trainer checkpointing", "transformers_trainer.py", ("gradient_checkpointing",)
    ),
    Program("timm", "timm_models.py"),
    Program("ignite", "ignite_idist.py"),
    Program("vit-pytorch", "vit_pytorch_ddp.py", ("vit",)),
    Program("x-transformers", "vit_pytorch_ddp.py", ("decoder",)),
    Program("fairscale", "fairscale_sharded.py"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--venv", type=Path, default=Path(tempfile.gettempdir()) / "ddpdoctor-programs"
    )
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    python = prepare(options.venv)
    failed = 0
    for program in PROGRAMS:
        if not options.names or program.name in options.names:
            verdict = judge(program, python)
            failed += not verdict.startswith("ok")
            print(f"{program.name:45} {verdict}", flush=True)
    sys.exit(bool(failed))


def prepare(folder: Path) -> Path:
    """A virtual environment with the packages and, behind them, this interpreter's own."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        own = sysconfig.get_path("purelib")
        (site / "behind.pth").write_text(f"import site; site.addsitedir({own!r})\n")
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES], check=True)
    return python


def judge(program: Program, python: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "ledger"
        code, output = run(program, python, environment(program.ranks, ledger=held))
        if code:
            return f"FAILED with exit code {code}\n{output[-2000:]}"
        devices = defaultdict(set)
        for holding in ledger.read(held):
            devices[holding.pid].add(holding.device_index)
        places = sorted(next(iter(each)) for each in devices.values() if len(each) == 1)
        if places != list(range(program.ranks)):
            return f"MISPLACED: {dict(devices)}"
    if not program.on_cpu:
        return "ok (it ends well, one rank a GPU)"
    plain = environment(0)
    code, expected = run(program, python, plain)
    if code:
        return f"FAILED on the plain CPU\n{expected[-2000:]}"
    losses = [re.findall(r"^loss (.*)$", text, re.MULTILINE) for text in (output, expected)]
    if losses[0] != losses[1] or not losses[0]:
        return f"DIFFERENT: {losses[0]} instead of {losses[1]}"
    return f"ok, loss {losses[0][-1]} on both"


def run(program: Program, python: Path, environ: dict[str, str]) -> tuple[int, str]:
    """The exit code and everything that was printed; the whole process group is ended with it."""
    script = (
        [str(HERE / program.script)] if program.script.endswith(".py") else ["-m", program.script]
    )
    command = [str(python)]
    if program.launched:
        command += [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={program.ranks}",
        ]
    child = subprocess.Popen(
        [*command, *script, *program.arguments],
        env=environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=400)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        return 124, output
    return child.returncode, output


if __name__ == "__main__":
    main()
