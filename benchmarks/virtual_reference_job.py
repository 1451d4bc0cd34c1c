"""The reference job on 8 virtual GPUs beside the same job on the plain CPU, by turns.

    python benchmarks/virtual_reference_job.py

Both are the article's program, repaired, under plain torchrun with 8 ranks and gloo underneath;
`--cpu` makes it a CPU program. Wall time and CPU time of the whole job (start of torchrun to its
end, all its processes), the median of each over the rounds, and their ratio. On a machine with
fewer than 8 cores the ranks wait for each other, as they would in a test.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddpdoctor.resources import resource as folder_of
from ddpdoctor.virtual import environment

_ROUNDS = 3
_RANKS = 8
_LIMIT = 1.3
_TIMEOUT = 600.0


def _job_seconds(virtual: bool, folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one whole job."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    program = folder_of("fixtures/article") / "3-repaired" / "main.py"
    options = ["--checkpoint", str(folder / "digits.pt")]
    if virtual:
        variables = environment(_RANKS, base=variables)
    else:
        options.append("--cpu")
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={_RANKS}"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, *launcher, str(program), *options],
        env=variables,
        check=True,
        timeout=_TIMEOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    runs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(_ROUNDS):
            for virtual in (False, True) if turn % 2 == 0 else (True, False):
                runs[virtual].append(_job_seconds(virtual, Path(folder)))
    for position, what in enumerate(("wall", "CPU")):
        plain, virtual_ = (statistics.median(r[position] for r in runs[v]) for v in (False, True))
        ratio = virtual_ / plain
        print(f"{what}: plain {plain:.1f} s, virtual {virtual_:.1f} s, {ratio:.2f}x", end="")
        print(f" (wanted: at most {_LIMIT}x)" if what == "wall" else "")


if __name__ == "__main__":
    main()
