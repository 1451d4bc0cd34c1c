"""Lines beside a program that give each of its ranks one GPU to see, so that cuda:0 is its own.

Job files do so (srun --gpus-per-task=1), and wrappers around the program, which name to CUDA the
GPU of the rank that they start.
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


def see_one_gpu_each(script: Path, root: Path, files: Files, local_ranks: Iterable[str]) -> bool:
    """Whether such lines are around a script. local_ranks: the variables in which launchers give
    the local rank."""
    mask = re.compile(_MASK % "|".join(map(re.escape, local_ranks)))
    for folder in folders_around(script, root):
        for name in files.launch_files(folder):
            data = files.data_file(folder / name)
            if data is not None and _isolates(data.decode("utf-8", "replace"), script, mask):
                return True
    return False


def _isolates(text: str, script: Path, mask: re.Pattern[str]) -> bool:
    lines = list(_effective(text))
    starts = any(script.stem in line for line in lines)
    if starts and any(map(_OF_TASK.search, lines)):
        return not any(map(_NOT_A_RANK_EACH.search, lines))
    wraps = starts or any(word in text for word in _RUNS_ITS_ARGUMENTS)
    return wraps and any(map(mask.search, lines))


def _effective(text: str) -> Iterator[str]:
    """The lines that are no comments, and those in comments that a scheduler reads."""
    for line in text.splitlines():
        if not line.lstrip().startswith("#") or line.startswith("#SBATCH"):
            yield line
