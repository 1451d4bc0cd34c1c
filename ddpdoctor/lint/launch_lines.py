"""Command lines beside a program that start it as several ranks, as the people around it run it.

A Trainer makes one process or many, as its launcher says, and that is no Python: it stands in shell
scripts, job files, Makefiles, READMEs, and in the program's own docstring.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from ddpdoctor.lint.launched_ranks import (
    UNSEEN,
    is_for_lines_below,
    mask_of_job,
    mask_of_line,
    starts_several,
)

MOST_BYTES = 256 << 10
_MOST_FILES = 200  # of one folder

_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job", ".mk")
_NAMES = ("makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml")
_MANIFEST = re.compile(r".*(?:job|pytorch|k8s|kube|train).*\.ya?ml")
_README = "readme"  # other texts may be notes on how one could run any program
_SCRIPT_FOLDERS = (
    *("scripts", "script", "shell", "slurm", "jobs", "launch", "recipes"),
    *("k8s", "kubernetes", "kubeflow", "manifests", "v1"),
)
_DEPTH = 2  # of folders below these
_DEEPEST = 30  # path of a script, in folders

_LAUNCHER = re.compile(
    r"(?<![\w.-])(torchrun|deepspeed|accelerate(?:-|[ \t]+)launch"
    r"|-m[ \t]+torch\.distributed\.(?:run|launch)|-m[ \t]+accelerate\.commands\.launch)[ \t]+"
)
_HINT = re.compile(
    rb"torchrun|deepspeed|accelerate[- \t]|torch\.distributed\.(?:run|launch)|accelerate\.commands"
)
_COMMENT = re.compile(r"(?:^|[ \t])#[^\n]*$", re.MULTILINE)
_CONTINUED = re.compile(r"\\+\r?\n")
_ASSIGNED = re.compile(
    r"(?:^|[;&|]|\b(?:then|else|do)\b)[ \t]*(?:export[ \t]+|set[ \t]+)?(\w+)[ \t]*[:?]?=[ \t]*"
    r"(\([^()]{0,2000}\)|\"[^\"]{0,2000}\"|'[^']{0,2000}'|[^\s#;&|]*)",
    re.MULTILINE,
)
_VARIABLE = re.compile(
    r"\$\{(\w+)(?:\[[@*]\])?(?::?[-=]([^{}]*))?[^{}]*\}|\$\((\w+)\)|\$(\w+)"
    r"|\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`\n]*\$[^`\n]*`"
)
_WORD = re.compile(r"(?:[^\s\"'`;|&]|\"[^\"]*\"|'[^']*')+")
_CHANGE_FOLDER = re.compile(r"(?:^|[;&`\s])cd[ \t]+[\"']?([\w./-]+)")
_LONGEST = 4000  # line in which variables are followed


class Files(Protocol):
    """The files around a program; what was asked for counts as what its judgement rests on."""

    def data_file(self, path: Path) -> bytes | None: ...

    def launch_files(self, folder: Path) -> tuple[str, ...]: ...

    def launch_lines(self, path: Path, root: Path) -> tuple[Line, ...]: ...


class Line(NamedTuple):
    """A line that starts a script by a launcher, as they are written. where: the folders in which
    it may have been meant to run; mask: the GPUs that it sees, None for all."""

    launcher: str
    script: str
    options: dict[str, str]
    where: tuple[Path, ...]
    mask: str | None

    @property
    def passes_local_rank(self) -> bool:
        """Whether the launcher gives each rank a --local_rank argument; torchrun never does."""
        if self.launcher.endswith("distributed.launch"):
            return "use_env" not in self.options
        return self.launcher == "deepspeed" and "no_local_rank" not in self.options


def launches(script: Path, own: bytes, root: Path, files: Files) -> Iterator[Line]:
    """The lines that start a script as several ranks.

    own: what the script holds, its docstring among it. root: the project's folder. Looked at are
    the files in the script's folder, in those above it inside the project, and in the folders of
    shell scripts there.
    """
    beside = (
        line
        for folder in folders_around(script, root)
        for name in files.launch_files(folder)
        for line in files.launch_lines(folder / name, root)
    )
    for line in chain(launch_lines(script, own, root), beside):
        means_it = _may_name(line.script, script) and _is(script, line, root)
        if means_it and starts_several(line, files):
            yield line


def launch_files(folder: Path) -> tuple[str, ...]:
    """The files of a folder, and of the folders of scripts in it, that may hold such lines."""
    found = [name for name in _names(folder) if _may_launch(folder / name)]
    for scripts in _SCRIPT_FOLDERS:
        for root, folders, names in os.walk(folder / scripts):
            below = Path(root).relative_to(folder)
            folders[:] = sorted(folders) if len(below.parts) <= _DEPTH else ()
            found += [str(below / name) for name in sorted(names) if _may_launch(Path(root, name))]
            if len(found) > _MOST_FILES:
                break
    return tuple(found[:_MOST_FILES])


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _may_launch(path: Path) -> bool:
    name = path.name.lower()
    known = name.endswith(_SUFFIXES) or name in _NAMES or name.startswith(_README)
    if not (known or _MANIFEST.fullmatch(name)):
        return False
    try:
        return os.stat(path).st_size <= MOST_BYTES
    except OSError:
        return False


def folders_around(script: Path, root: Path) -> Iterator[Path]:
    for folder in script.parents:
        yield folder
        if folder == root:
            return


def launch_lines(path: Path, data: bytes, root: Path) -> tuple[Line, ...]:
    """The lines of a file that start a script by a launcher."""
    if _HINT.search(data) is None:
        return ()
    text = data.decode("utf-8", "replace")
    mask = mask_of_job(text)
    if path.suffix != ".py":  # a comment there tells how to run it
        text = _COMMENT.sub("", text)
    text = _CONTINUED.sub(" ", text)
    values = _values(text)
    above = tuple(folders_around(path, root))
    changed = None
    found: list[Line] = []
    for line in text.splitlines():
        changed = _CHANGE_FOLDER.search(line) or changed
        line = _with_values(line, values)
        launcher = _LAUNCHER.search(line)
        before = line[: launcher.start()] if launcher else line
        own = mask_of_line(before)
        if own is not None and is_for_lines_below(before):
            mask = own
        command = launcher and _command(_WORD.findall(line[launcher.end() :]))
        if launcher and command:
            inside = [folder / changed[1] for folder in above] if changed else []
            where = (*filter(os.path.isdir, inside), *above)
            found.append(Line(launcher[1], *command, where, mask if own is None else own))
    return tuple(found)


def _values(text: str) -> dict[str, str]:
    """The variables that are given one value only."""
    values: dict[str, str] = {}
    for name, value in _ASSIGNED.findall(text):
        if values.setdefault(name, value) != value:
            values[name] = UNSEEN
    values = {name: v.strip("()\"'\n ").replace("\n", " ") for name, v in values.items()}
    return {name: _otherwise(name, v) for name, v in values.items() if len(v) < _LONGEST}


def _otherwise(name: str, value: str) -> str:
    """Of N=${N:-4} what N is where nobody sets it."""
    default = _VARIABLE.fullmatch(value)
    return default[2] if default and default[1] == name and default[2] else value


def _with_values(line: str, values: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3] or found[4]
        return values.get(name) or found[2] or UNSEEN

    for _ in range(4):  # variables that are made from others
        if "$" not in line or len(line) > _LONGEST:
            break
        line = _VARIABLE.sub(value, line)
    return line


def _command(words: list[str]) -> tuple[str, dict[str, str]] | None:
    """The script that a launcher gets, and the launcher's options; None for what is no command."""
    words = [re.sub("[\"']", "", word) for word in words]
    options: dict[str, str] = {}
    module = False
    while words:
        word = words.pop(0)
        if word in ("-m", "--module"):
            module = True
        elif word[:1] == "-":
            name, equals, value = word.partition("=")
            if not equals and words and words[0][:1] != "-" and not words[0].endswith(".py"):
                value = words.pop(0)
            options[name.lstrip("-").replace("-", "_")] = value
        elif module:
            return word.replace(".", "/") + ".py", options
        else:
            return (word, options) if word.endswith(".py") else None
    return None


def _may_name(written: str, script: Path) -> bool:
    last = written.rpartition("/")[2]
    return last == script.name or last.removesuffix(".py") == script.parent.name


def _is(script: Path, line: Line, root: Path) -> bool:
    """Whether a line means a script, in one of the folders in which it may run."""
    written = line.script
    parts = [part for part in written.split("/") if part not in ("", ".")][-_DEEPEST:]
    unknown = [index for index, part in enumerate(parts) if UNSEEN in part]
    known = parts[unknown[-1] + 1 :] if unknown else parts
    # What leads a whole path is another machine's: the longest end that there is here counts.
    ends = len(known) if unknown or written[:1] == "/" else 1
    for start in range(ends):
        end = known[start:]
        for folder in (*line.where, root / "src"):
            for path in _files_of(folder, end):
                if os.path.isfile(path):
                    return os.path.realpath(path) == os.path.realpath(script)
        # In a folder that is not seen: more than a file's name has to tell which is meant.
        inner = [part for part in end if part != ".."]
        if len(inner) > 1 and any(script.match(path) for path in _files_of(Path(), inner)):
            return True
    return False


def _files_of(folder: Path, parts: list[str]) -> tuple[str, str]:
    """The file of a path, or of the package of that name which is run."""
    path = os.path.normpath(folder.joinpath(*parts))
    return path, os.path.join(path.removesuffix(".py"), "__main__.py")
