"""How many ranks a command line starts on a machine, and how many GPUs these see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddpdoctor.lint.launch_lines import Files, Line

UNSEEN = "$"  # what a variable stands for whose value is not seen

_MASK = re.compile(r"(?:^|\s)CUDA_VISIBLE_DEVICES[= ][\"']?([^\s\"';&]*)")
_EXPORTS = re.compile(r"[ \t]*(?:export|set|setenv)\b|.*CUDA_VISIBLE_DEVICES=\S*[ \t]*(?:;|$)")
_DIRECTIVE = re.compile(r"^(?:#(?:SBATCH|PBS|BSUB|\$)|.*nvidia\.com/gpu).*", re.MULTILINE)
# Of srun and sbatch, of other schedulers, of Kubernetes, and of docker.
_ONE_GPU = re.compile(
    r"--gres[= ]gpu(?::[a-z]\w*)?(?::1)?(?![\w:])|--gpus(?:-per-\w+)?[= ](?:[a-z]\w*:)?1\b"
    r"|(?<![\w-])-G[= ]?1\b|\bngpus=1\b|\bgpu=1\b|-gpu .?num=1\b"
    r"|nvidia\.com/gpu[\"']?:[ \t]*[\"']?1\b|--gpus[= ][\"']{0,2}device=\w+(?![\w,])"
)


def mask_of_job(text: str) -> str | None:
    """The GPUs that a job file or manifest gives to its processes, None where that is more than one
    or not said."""
    return "0" if any(map(_ONE_GPU.search, _DIRECTIVE.findall(text))) else None


def mask_of_line(line: str) -> str | None:
    """The GPUs that a line of a script leaves to what it starts, None where it does not say it."""
    visible = _MASK.search(line)
    if visible is not None:
        return visible[1]
    return "0" if _ONE_GPU.search(line) else None


def is_for_lines_below(line: str) -> bool:
    """Whether the mask in a line is not for its command alone."""
    return _EXPORTS.match(line) is not None


def starts_several(line: Line, files: Files) -> bool:
    """Whether a line starts several ranks on a machine. Where it does not say how many, it starts
    one for each GPU that it sees; torchrun does so for a count that is not seen."""
    options = line.options
    if line.mask in ("", "-1"):
        return False  # on the CPU
    if "accelerate" in line.launcher:
        if "cpu" in options or "use_cpu" in options:
            return False
        count = options.get("num_processes")
        if not count and "gpu_ids" in options:
            return "," in options["gpu_ids"] or options["gpu_ids"] == "all"
        if not count and "config_file" in options:
            configured = _several_configured(options["config_file"], line.where, files)
            if configured is not None:
                return configured
    elif line.launcher == "deepspeed":
        count = options.get("num_gpus")
        hosts = options.get("include") or options.get("i")
        if not count and hosts:
            return any("," in host or ":" not in host for host in hosts.split("@"))
    else:
        count = options.get("nproc_per_node", "1")
        if UNSEEN in count:
            return _is_one(line.mask) is not True
    if count and UNSEEN not in count:
        return count != options.get("num_machines", "1")  # accelerate counts those of all machines
    return _is_one(line.mask) is False


def _is_one(mask: str | None) -> bool | None:
    """Whether a mask leaves one GPU, None where it is not seen."""
    if mask is None:
        return False
    return None if UNSEEN in mask else "," not in mask.strip(",")


def _several_configured(name: str, where: tuple[Path, ...], files: Files) -> bool | None:
    """What a configuration of accelerate says."""
    for folder in where:
        data = files.data_file(folder / name)
        if data is not None:
            count, machines = (
                re.search(rb"^num_%b:[ \t]*(\d+)" % what, data, re.MULTILINE)
                for what in (b"processes", b"machines")
            )
            alone = re.search(rb"^(?:distributed_type:[ \t]*['\"]?NO|use_cpu: *true)", data, re.M)
            each = machines[1] if machines else b"1"
            return alone is None and (count is None or count[1] != each)
    return None
