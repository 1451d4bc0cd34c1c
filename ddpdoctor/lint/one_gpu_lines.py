"""Lines beside a program that give each of its ranks one GPU to see, so that cuda:0 is its own.

Job files do so (srun --gpus-per-task=1), wrappers around the program, which name to CUDA the GPU of
the rank that they start, and the manifests of Kubernetes jobs whose pods have one GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ddpdoctor.lint.launch_lines import Files, folders_around

_OF_TASK = re.compile(r"--gpus-per-task[= \t]+1\b|--virtual[-_]local[-_]rank\b")
# Tasks that see all GPUs of their node, and a job of one task, which starts its ranks itself.
_NOT_A_RANK_EACH = re.compile(r"--gpu-bind=none\b|(?:--ntasks|(?<![\w-])-n)[= \t]*1\b")
_MASK = r"\b(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES=[\"']?\$\{?(?:%s)\b"
_RUNS_ITS_ARGUMENTS = ("$@", "$*")
_RANKS_ARE_PODS = re.compile(r"\bkind[\"']?: *[\"']?(?:PyTorchJob|MPIJob|TrainJob)\b")
_GPUS_OF_POD = re.compile(r"\b(?:nvidia|amd)\.com/gpu[\"']?: *[\"']?(\w+)")
_SCRIPT = re.compile(r"([\w-]+\.py)\b")


def see_one_gpu_each(script: Path, root: Path, files: Files, local_ranks: Iterable[str]) -> bool:
    """Whether such lines are around a script. local_ranks: the variables in which launchers give
    the local rank."""
    mask = re.compile(_MASK % "|".join(map(re.escape, local_ranks)))
    for folder in folders_around(script, root):
        for name in files.launch_files(folder):
            data = files.data_file(folder / name)
            text = "" if data is None else data.decode("utf-8", "replace")
            if _isolates(text, script, mask) or _has_pods_of_one_gpu(text, script):
                return True
    return False


def _isolates(text: str, script: Path, mask: re.Pattern[str]) -> bool:
    lines = list(_effective(text))
    starts = any(script.stem in line for line in lines)
    if starts and any(map(_OF_TASK.search, lines)):
        return not any(map(_NOT_A_RANK_EACH.search, lines))
    wraps = starts or any(word in text for word in _RUNS_ITS_ARGUMENTS)
    return wraps and any(map(mask.search, lines))


def _has_pods_of_one_gpu(text: str, script: Path) -> bool:
    lines = list(_effective(text))
    if not any(map(_RANKS_ARE_PODS.search, lines)):
        return False
    scripts = {name for line in lines for name in _SCRIPT.findall(line)}
    gpus = {count for line in lines for count in _GPUS_OF_POD.findall(line)}
    return gpus == {"1"} and (not scripts or script.name in scripts)  # or the image names it


def _effective(text: str) -> Iterator[str]:
    """The lines that are no comments, and those in comments that a scheduler reads."""
    for line in text.splitlines():
        if not line.lstrip().startswith("#") or line.startswith("#SBATCH"):
            yield line
