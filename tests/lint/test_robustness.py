"""Whatever the files hold, lint says what it could not do and goes on with the rest."""

from __future__ import annotations

import ast
import keyword
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpdoctor.findings import DdpdoctorError
from ddpdoctor.lint import Linted, apis, lint
from ddpdoctor.lint.deep_stack import with_deep_stack
from ddpdoctor.lint.judging import Job, Judge
from ddpdoctor.lint.nesting import MOST_BRACKETS, MOST_LINKS, too_deep
from ddpdoctor.lint.rule import all_codes

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

PROGRAM = """\
import torch
import torch.distributed as dist
{imports}
dist.init_process_group("nccl")
model = torch.nn.Linear(2, 2).cuda()
model = torch.nn.parallel.DistributedDataParallel(model)
"""


def command(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "lint", "--no-cache", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- files that cannot be read or parsed --------------------------------------------------------

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "syntax error": (b"def f(:\n", "syntax error at line 1"),
    "null bytes": (b"x = 1\0\n", "null bytes"),
    "not UTF-8": (b"x = '\xff\xfe'\n", "not valid text"),
    "unknown encoding": (b"# -*- coding: klingon -*-\nx = 1\n", "not valid text"),
    "five megabytes": (b"x = 1\n" * (5 << 20), "larger than"),
    "nested brackets": (b"x = " + b"(" * 3000 + b")" * 3000 + b"\n", "nests deeper"),
    "long sum": (b"x = " + b" + ".join([b"1"] * 3000) + b"\n", "operators"),
    "long chain": (b"x = a" + b".b(c)" * 3000 + b"\n", "operators"),
    "sum over lines": (b"x = (\n" + b"    1 +\n" * 3000 + b"    1)\n", "operators"),
    "indented": (b"".join(b" " * i + b"if x:\n" for i in range(150)), "syntax error"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "null bytes"),
    "print statement": (b"print 'hello'\n", "syntax error at line 1"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_imported_file_that_cannot_be_read_is_named_and_the_rest_is_judged(
    tmp_path: Path, name: str
) -> None:
    data, reason = UNREADABLE[name]
    (tmp_path / "broken.py").write_bytes(data)
    (tmp_path / "train.py").write_text(PROGRAM.format(imports="import broken"))
    linted = lint([tmp_path / "train.py"])
    assert "DDP101" in codes(linted)
    (line,) = linted.skipped
    assert reason in line.partition("broken.py: ")[2]


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_script_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path, name: str) -> None:
    data, reason = UNREADABLE[name]
    script = tmp_path / "broken.py"
    script.write_bytes(data)
    with pytest.raises(DdpdoctorError, match=reason) as error:
        lint([script])
    assert "\n" not in str(error.value)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_pipe, make_dangling_link, make_loop])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "odd.py")
    (tmp_path / "train.py").write_text(PROGRAM.format(imports="import odd"))
    linted = lint([tmp_path])
    assert "DDP101" in codes(linted)
    assert [line.partition(": ")[0].rpartition("/")[2] for line in linted.skipped] == ["odd.py"]
    with pytest.raises(DdpdoctorError, match=r"odd\.py: "):
        lint([tmp_path / "odd.py"])


def test_a_folder_named_like_a_module(tmp_path: Path) -> None:
    make_folder(tmp_path / "odd.py")
    (tmp_path / "odd.py" / "train.py").write_text(PROGRAM.format(imports="import odd"))
    assert "DDP101" in codes(lint([tmp_path]))
    assert "DDP101" in codes(lint([tmp_path / "odd.py"]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_and_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(imports="import closed"))
    (tmp_path / "closed.py").touch(mode=0)
    (tmp_path / "below").mkdir(mode=0)
    linted = lint([tmp_path])
    assert "DDP101" in codes(linted)
    assert len(linted.skipped) == 2
    with pytest.raises(DdpdoctorError, match="below: Permission denied"):
        lint([tmp_path / "below"])


# -- programs that are hard to follow -----------------------------------------------------------

HARD = {
    "circular imports": "import train\nfrom train import *\nimport odd\nfrom odd import x\n",
    "recursion": "def f(n):\n    return f(n + 1) + g(n)\ndef g(n):\n    return f(n)\nf(0)\n",
    "a class of itself": "class A: pass\nclass A(A): pass\nA.B = A\nA()\n",
    "a list in itself": "x = []\nx.append(x)\nx += [x]\nprint(x == x, str(x))\nd = {}\nd[0] = d\n",
    "tensors in themselves": "import torch\nx = []\nx.append(x)\nx.append({0: x})\ntorch.cat(x)\n",
    "a dictionary in itself": "from torch import nn\nd = {'a': 1}\nd['d'] = d\nd[x] = d\n"
    "d.update(d)\ne = dict(d)\nnn.Linear(1, 1).load_state_dict(d)\nprint({**d} == e, d)\n",
    "an endless generator": "def f():\n    while 1:\n        yield f\n"
    "for x in f():\n    list(f())\n",
    "large literals": f"x = {'9' * 10_000}\ny = {list(range(5000))}\n",
    "large results": "x = 10 ** 10 ** 10\ny = 1 << 10 ** 9\nz = 'a' * 9 ** 12\nw = [0] * x\n",
    "many branches": "".join(f"if a{i}:\n    x = {i}\n" for i in range(300)) + "print(x)\n",
    "nested branches": "def f(x):\n"
    + "".join("    " * (i + 1) + f"if a{i}(x):\n" for i in range(40))
    + "    " * 41
    + "x = 1\n",
    "a chain of branches": "if a:\n    x = 0\n"
    + "".join(f"elif b{i}:\n    x = {i}\n" for i in range(900)),
    "deep attributes": "x = a" + ".b" * 900 + "\n",
    "nested functions": "".join("    " * i + f"def f{i}():\n" for i in range(90))
    + " " * 360
    + "1\n",
    "decorators": "def d(f):\n    return d\n" + "@d\n" * 500 + "def f(): pass\nf()\n",
    "names that cannot be files": f"import {'a' * 5000}\nfrom {'b.' * 500}c import d\n",
    "imports above the top": "from ..... import a\nfrom ....b import c\n",
    "odd constants": "x = 1e999\ny = int(x)\nz = int('x')\nv = '\\ud800'\nopen(v)\n",
    "formats": "'%d' % 'a'\n'{'.format(1)\n'{a.b[0]!r:>{w}}'.format(1)\nf'{x!r:>{y}}'\n",
    "wide formats": "x = '%999999999999d' % 3\ny = b'%-999999999999d' % 3\n",
    "newer syntax": "type X[T] = list[T]\ndef f[T: int](x: T) -> T:\n    return f'{'x'}'\n",
    "a lone carriage return": "x = 1\ry = 2\r",
    "deletions": "x = [1]\ndel x[0], x\nprint(x)\ndel undefined.a, undefined[0]\n",
}


@pytest.mark.parametrize("name", HARD)
def test_a_program_that_is_hard_to_follow_is_followed_as_far_as_possible(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "odd.py").write_bytes(HARD[name].encode("utf-8", "surrogatepass"))
    (tmp_path / "train.py").write_text(PROGRAM.format(imports="import odd"))
    linted = lint([tmp_path / "train.py"])
    assert "DDP101" in codes(linted)
    assert linted.skipped == ()


def test_configuration_whose_aliases_multiply(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    (tmp_path / "config.yaml").write_text("\n".join(lines))
    imports = "import yaml\nconfig = yaml.safe_load(open('config.yaml'))\nprint(config['a29'])"
    (tmp_path / "train.py").write_text(PROGRAM.format(imports=imports))
    assert "DDP101" in codes(lint([tmp_path / "train.py"]))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a\n  b: *a\n  c: [*a]\n",
        "&a [x, *a]\n",
        "[" * 60_000 + "]" * 60_000,
        "{a: " * 20_000 + "x" + "}" * 20_000,
        "- " * 60_000 + "x",
    ],
    ids=["in itself", "a list in itself", "brackets", "braces", "dashes"],
)
def test_configuration_that_holds_itself_or_nests_without_end(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    imports = """\
import json
import yaml
from omegaconf import OmegaConf
config = OmegaConf.merge(OmegaConf.load('config.yaml'), OmegaConf.from_cli())
print(config.a.b.b, config.a.c[0].b, [x for x in config], str(config))
print(yaml.safe_load(open('config.yaml')), json.load(open('config.yaml')))"""
    (tmp_path / "train.py").write_text(PROGRAM.format(imports=imports))
    linted = lint([tmp_path / "train.py"])
    assert "DDP101" in codes(linted)
    assert linted.skipped == ()


# -- faults of the tool itself ------------------------------------------------------------------


def test_a_fault_of_the_tool_in_one_program_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddpdoctor.lint import analysis

    judge = analysis.judge

    def faulty(entry, *rest):  # type: ignore[no-untyped-def]
        if entry.path.name == "one.py":
            raise ZeroDivisionError("a bug")
        return judge(entry, *rest)

    monkeypatch.setattr(analysis, "judge", faulty)
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(PROGRAM.format(imports=""))
    linted = lint([tmp_path])
    assert {Path(finding.filename or "").name for finding in linted.findings} == {"two.py"}
    assert linted.failed
    (line,) = linted.skipped
    assert "one.py: internal error of ddpdoctor, please report it: ZeroDivisionError" in line


def test_a_worker_that_dies_costs_the_program_it_was_at(tmp_path: Path) -> None:
    """The real processes, with an analysis that kills its own process on one program."""
    for number in range(16):
        (tmp_path / f"train{number:02}.py").write_text(PROGRAM.format(imports=""))
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os\n"
        "from ddpdoctor.lint import analysis\n"
        "judge = analysis.judge\n"
        "def faulty(entry, *rest):\n"
        "    if entry.path.name == 'train07.py':\n"
        "        os._exit(3)\n"
        "    return judge(entry, *rest)\n"
        "analysis.judge = faulty\n"
    )
    code = (
        "from pathlib import Path\n"
        "from ddpdoctor.lint.judging import Job\n"
        "from ddpdoctor.lint.workers import judge_in_processes\n"
        f"scripts = sorted(Path({str(tmp_path)!r}).glob('train*.py'))\n"
        "outcomes = judge_in_processes(Job((), ('DDP101',)), scripts, 2)\n"
        "for path, outcome in sorted(outcomes.items()):\n"
        "    print(path.name, outcome.problem or len(outcome.judged.findings))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(hook)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    expected = {f"train{number:02}.py": "1" for number in range(16)}
    expected["train07.py"] = (
        "internal error of ddpdoctor, please report it: its process ended with exit code 3"
    )
    assert dict(line.split(" ", 1) for line in run.stdout.splitlines()) == expected, run.stderr


def test_processes_find_what_one_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddpdoctor.lint import engine

    cases = FIXTURES / "cases"
    monkeypatch.setattr(engine, "_usable_cores", lambda: 2)
    monkeypatch.setattr(engine, "_SECONDS_ALONE", 0.2)
    several = lint([cases])
    monkeypatch.setattr(engine, "_usable_cores", lambda: 1)
    alone = lint([cases])
    assert several == alone
    assert alone.programs > 100


def test_a_module_of_the_user_named_like_one_of_pythons_is_never_run(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Worker processes start in the user's folder, and must not import from it."""
    for name in ("pickle", "signal", "click", "libcst", "ddpdoctor", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open('{name}.was-run', 'w')\n")
    for number in range(24):
        (tmp_path / f"train{number}.py").write_text(PROGRAM.format(imports=""))
    start = tmp_path_factory.mktemp("elsewhere") / "start.py"
    start.write_text(
        "from ddpdoctor import cli\n"
        "from ddpdoctor.lint import engine, workers\n"
        "engine._SECONDS_ALONE = 0.0\n"
        "engine._usable_cores = lambda: 2\n"
        "judge = workers.judge_in_processes\n"
        "def told(job, scripts, count):\n"
        "    print(f'{count} processes for {len(scripts)} scripts')\n"
        "    return judge(job, scripts, count)\n"
        "workers.judge_in_processes = told\n"
        "cli.main()\n"
    )
    run = subprocess.run(
        [sys.executable, start, "lint", "--no-cache", "--output-format", "concise", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "2 processes for 24 scripts" in run.stdout
    assert run.returncode == 1, run.stderr
    assert "24 distributed programs" in run.stderr
    assert list(tmp_path.glob("*.was-run")) == []


def test_bad_input_at_the_command_line_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_bytes(UNREADABLE["syntax error"][0])
    (tmp_path / "empty").mkdir()
    for argument in ("broken.py", "empty", "missing.py"):
        run = command(argument, folder=tmp_path)
        assert run.returncode == 2
        assert run.stderr.startswith("ddpdoctor: ")
        assert len(run.stderr.splitlines()) == 1
        assert run.stdout == ""


# -- any program --------------------------------------------------------------------------------


def test_brackets_and_operators_in_strings_and_comments_do_not_count() -> None:
    many = "([{" * MOST_BRACKETS + " + . and" * MOST_LINKS
    text = f'x = """\n{many}\n"""\ny = \'{many}\'  # {many}\nz = "\\"{many}"\n'
    assert too_deep(text.encode()) is None
    table = "".join(f"    ({i} + 1, f(x).y[{i}]),\n" for i in range(MOST_LINKS))
    assert too_deep(f"x = [\n{table}]\n".encode()) is None
    assert too_deep(("x = f(1) + y.z\n" * MOST_LINKS).encode()) is None


SOURCES = sorted(
    path
    for pattern in ("article/*/*.py", "cases/*/bad/**/*.py", "cases/*/negative/**/*.py")
    for path in FIXTURES.glob(pattern)
)
_WORDS = re.compile(r"\b(?:[A-Za-z_]\w*|\d[\w.]*)\b|'[^'\n]*'|\"[^\"\n]*\"")
_STRANGE = (
    "None",
    "True",
    "0",
    "-1",
    "1e999",
    "''",
    "[]",
    "{}",
    "()",
    "...",
    "x",
    "self",
    "x()",
    "x.y",
    "x[0]",
    "x[1:]",
    "(lambda:0)",
    "(yield)",
    "super()",
    "10**99",
    "1j",
    "b'a'",
    "'\\ud800'",
    "'cuda:0'",
    "'cuda'",
    "int('a')",
    "[*x]",
    "{**x}",
    "(y:=x)",
    "f'{x}'",
    "f'cuda:{x}'",
    "'%d'%x",
    "'{}{'.format(x)",
    "os.environ",
    "os.environ['LOCAL_RANK']",
    "torch.device('cuda')",
    "dist.get_rank()",
    "globals()",
    "type('A',(),{})",
    "getattr(x,'a')",
    "object",
    "print",
    "not x",
    "[i for i in x]",
    "{i: i for i in x}",
)


def statements(source: str) -> list[tuple[int, int, int]]:
    """First line, line after the last, and column of every statement."""
    return [
        (below.lineno - 1, below.end_lineno or below.lineno, below.col_offset)
        for node in ast.walk(ast.parse(source))
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
        for below in block
        if isinstance(below, ast.stmt)
    ]


@st.composite
def mutants(draw: st.DrawFn) -> tuple[Path, str]:
    """A source file, and what became of it."""
    path = draw(st.sampled_from(SOURCES))
    source = path.read_text(encoding="utf-8")
    for _ in range(draw(st.integers(1, 5))):
        try:
            spans = statements(source)
        except (SyntaxError, ValueError):
            break
        if not spans:
            break
        first, last, column = draw(st.sampled_from(spans))
        lines = source.split("\n")
        how = draw(st.sampled_from(["delete", "duplicate", "swap", "word", "word", "word"]))
        if how == "delete":
            lines[first:last] = [" " * column + "pass"]
        elif how == "duplicate":
            lines[last:last] = lines[first:last]
        elif how == "swap":
            others = [span for span in spans if span[2] == column and span[0] >= last]
            if others:
                start, end, _ = draw(st.sampled_from(others))
                middle = lines[last:start]
                lines[first:end] = [*lines[start:end], *middle, *lines[first:last]]
        source = "\n".join(lines)
        words = [match for match in _WORDS.finditer(source) if match.group() not in keyword.kwlist]
        if how == "word" and words:
            old = draw(st.sampled_from(words))
            own = [match.group() for match in words]
            new = draw(st.one_of(st.sampled_from(own), st.sampled_from(_STRANGE)))
            source = source[: old.start()] + new + source[old.end() :]
    return path, source


@given(mutants())
@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_mutant_of_a_distributed_program_breaks_the_analysis(mutant: tuple[Path, str]) -> None:
    path, source = mutant
    contents = {path.resolve(): source.encode("utf-8", "surrogatepass")}
    job = Job((), tuple(all_codes()))
    outcome = with_deep_stack(lambda: Judge(job, apis.load(), contents)(entry_of(path)))
    assert not outcome.failed, (outcome.problem, source)


def entry_of(path: Path) -> Path:
    main = path.parent / "main.py"
    return main if main.exists() else path


def codes(linted: Linted) -> set[str]:
    return {finding.code for finding in linted.findings}
