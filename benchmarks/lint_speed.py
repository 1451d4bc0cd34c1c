"""How fast `ddpdoctor lint` is beside other linters, on the same files in the same run.

    python -m benchmarks.lint_speed [--cache FOLDER]

Others: TorchFix, Fixit, torch-preflight and ruff, each installed into an environment of its own
under the cache folder; the files come from released packages. Times are the best of a few runs;
CPU time, which other work on the machine disturbs less, gives the ratios. TorchFix, Fixit and
torch-preflight would take many minutes on the large tree, so there they get every 60th file of it
and what that takes beyond their start is scaled up by the lines left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OTHERS = {"torchfix": "TorchFix==0.7.0", "fixit": "fixit", "torch-preflight": "torch-preflight"}
PACKAGES = ("transformers", "accelerate")
ARTICLE = Path(__file__).resolve().parent.parent / "fixtures" / "article" / "1-first-written"
STEP = 60  # of the sample of the large tree
SCRIPT = "accelerate/test_utils/scripts/test_distributed_data_loop.py"  # 430 lines


@dataclass(frozen=True)
class Cost:
    """Seconds of one run."""

    wall: float
    cpu: float

    def and_more(self, part: Cost, factor: float) -> Cost:
        """What all would cost, if this is the start alone and `part` of the work comes with it."""
        return Cost(
            self.wall + factor * max(part.wall - self.wall, 0.0),
            self.cpu + factor * max(part.cpu - self.cpu, 0.0),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path.home() / ".cache" / "ddpdoctor-benchmarks"
    parser.add_argument("--cache", type=Path, default=default)
    cache: Path = parser.parse_args().cache.absolute()
    tools = {name: install(cache, name, package) for name, package in OTHERS.items()}
    trees = {name: fetch(cache, name) for name in PACKAGES}
    large, many = trees["transformers"], trees["accelerate"]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        table(f"(a) {size(large)}, mostly not distributed", on_large(large, tools, scratch))
        table(f"(b) {size(many)}, full of distributed programs", on_tree(many, tools, scratch))
        script = many.parent / SCRIPT
        table(f"(c) one script, {lines([script])} lines", on_tree(script, tools, scratch))
        growth(scratch)


def on_large(tree: Path, tools: dict[str, Path], scratch: Path) -> dict[str, Cost]:
    files = sorted(tree.rglob("*.py"))
    sample = scratch / "sample"
    for number, file in enumerate(files[::STEP]):
        sample.mkdir(exist_ok=True)
        shutil.copy(file, sample / f"{number}_{file.name}")
    whole = lines(files) / lines(sample.iterdir())
    rows = own(tree, scratch)
    rows["ruff"] = best(ruff(tree))
    empty = scratch / "empty.py"
    empty.touch()
    for name, tool in tools.items():
        start = best(other(name, tool, empty))
        part = best(other(name, tool, sample), 1)
        rows[f"{name} (from 1/{whole:.0f} of it)"] = start.and_more(part, whole)
    return rows


def on_tree(tree: Path, tools: dict[str, Path], scratch: Path) -> dict[str, Cost]:
    rows = own(tree, scratch)
    rows["ruff"] = best(ruff(tree))
    for name, tool in tools.items():
        rows[name] = best(other(name, tool, tree), 1 if tree.is_dir() else 3)
    return rows


def own(tree: Path, scratch: Path) -> dict[str, Cost]:
    """ddpdoctor without its cache, on one core and on all, and with it."""
    cold = ddpdoctor("lint", "--no-cache", tree)
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}
    rows = {"ddpdoctor, one core": best(cold, one_core=True), "ddpdoctor": best(cold)}
    cached = ddpdoctor("lint", tree)
    run(cached, environment)
    rows["ddpdoctor, cached"] = best(cached, environment=environment)
    return rows


def growth(scratch: Path) -> None:
    print("\n(e) the article's program, once and often: seconds of CPU, without the start")
    start = best(ddpdoctor("--version")).cpu
    first = 0.0
    for count in (1, 10, 100):
        folder = scratch / f"copies{count}"
        for number in range(count):
            shutil.copytree(ARTICLE, folder / f"program{number}")
        cost = best(ddpdoctor("lint", "--no-cache", folder), one_core=True).cpu - start
        first = first or cost
        print(f"  {count:4} programs {cost:8.2f} s {cost / first:8.1f} x")


def table(title: str, rows: dict[str, Cost]) -> None:
    print(f"\n{title}\n  {'':42}{'wall s':>9}{'CPU s':>9}{'CPU ratio':>11}")
    unit = rows["ddpdoctor, one core"].cpu
    for name, cost in rows.items():
        print(f"  {name:42}{cost.wall:9.2f}{cost.cpu:9.2f}{cost.cpu / unit:10.2f}x", flush=True)


# -- running ------------------------------------------------------------------------------------


def best(
    command: list[str],
    runs: int = 3,
    *,
    environment: dict[str, str] | None = None,
    one_core: bool = False,
) -> Cost:
    costs = [run(command, environment, one_core=one_core) for _ in range(runs)]
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))


def run(
    command: list[str], environment: dict[str, str] | None = None, *, one_core: bool = False
) -> Cost:
    # Installed tools are compiled; a checkout is, once Python may write that down.
    environment = {**(environment or os.environ)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=1800,
        preexec_fn=_keep_one_core if one_core else None,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _keep_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def ddpdoctor(*arguments: str | Path) -> list[str]:
    return [str(Path(sys.executable).with_name("ddpdoctor")), *map(str, arguments)]


def ruff(tree: Path) -> list[str]:
    program = str(Path(sys.executable).with_name("ruff"))
    return [program, "check", "--no-cache", "--isolated", str(tree)]


def other(name: str, tool: Path, tree: Path) -> list[str]:
    command = {"torchfix": [], "fixit": ["lint"], "torch-preflight": ["check"]}
    return [str(tool), *command[name], str(tree)]


# -- what it runs on ----------------------------------------------------------------------------


def install(cache: Path, name: str, package: str) -> Path:
    """The program of a linter, in an environment of its own: they want different libcsts."""
    home = cache / name
    program = home / "bin" / name
    if not program.exists():
        print(f"installing {package} ...", flush=True)
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", package], check=True, timeout=600)
    return program


def fetch(cache: Path, package: str) -> Path:
    """The folder of a released package, never installed."""
    folder = cache / "files"
    tree = folder / package
    if not tree.exists():
        print(f"fetching {package} ...", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps"]
        subprocess.run(
            [*pip, "--only-binary=:all:", "--dest", str(folder), package], check=True, timeout=600
        )
        (wheel,) = folder.glob(f"{package}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return tree


def size(tree: Path) -> str:
    files = list(tree.rglob("*.py"))
    return f"{tree.name}: {len(files)} files, {lines(files):,} lines"


def lines(files: Iterable[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


if __name__ == "__main__":
    main()
