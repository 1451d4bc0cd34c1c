"""Virtual GPUs and hooks reach processes that we do not start ourselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddpdoctor.virtual import environment


def run(code, environ, *arguments):
    result = subprocess.run(
        [sys.executable, *arguments, "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_child_and_its_own_children_see_the_gpus():
    code = (
        "import subprocess, sys, torch; print(torch.cuda.device_count(), flush=True); "
        "subprocess.run([sys.executable, '-c', "
        "'import torch; print(torch.ones(1, device=\"cuda:2\").device)'])"
    )
    assert run(code, environment(3)) == "3\ncuda:2\n"


def test_hooks_run_in_order_after_torch_without_virtual_gpus(tmp_path):
    (tmp_path / "hooked.py").write_text(
        "import sys\n"
        "def first():\n"
        "    print('first', 'torch' in sys.modules, sys.modules['torch'].cuda.is_available())\n"
        "def second(): print('second')\n"
    )
    environ = environment(
        0, hooks=("hooked:first", "hooked:second"), base={"PYTHONPATH": str(tmp_path)}
    )
    assert run("print('before'); import torch; print('after')", environ) == (
        "before\nfirst True False\nsecond\nafter\n"
    )


def test_a_program_without_torch_is_left_alone():
    assert run("import sys; print('ddpdoctor.virtual.switch' in sys.modules)", environment(2)) == (
        "False\n"
    )


def test_the_sitecustomize_that_ours_shadows_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    environ = environment(1, base={"PYTHONPATH": str(tmp_path)})
    assert run("import sitecustomize; print(sitecustomize.__file__)", environ) == (
        f"theirs\n{tmp_path}/sitecustomize.py\n"
    )


def test_ddpdoctor_is_found_by_an_interpreter_that_has_not_installed_it(tmp_path):
    # -S leaves site-packages out, and with them the installed ddpdoctor; -S also skips
    # sitecustomize, so it is imported by hand as site would.
    code = "import sitecustomize, ddpdoctor.virtual; print(ddpdoctor.virtual.__name__)"
    assert run(code, environment(1), "-S") == "ddpdoctor.virtual\n"


def test_a_second_environment_on_top_replaces_the_first(tmp_path):
    inner = environment(5, base=environment(2, ledger=tmp_path / "ledger"))
    assert "DDPDOCTOR_LEDGER" not in inner
    assert inner["PYTHONPATH"].count("inject") == 1
    assert run("import torch; print(torch.cuda.device_count())", inner) == "5\n"


@pytest.mark.parametrize("count", [-1, 121])
def test_a_count_that_no_machine_has_is_refused(count):
    with pytest.raises(ValueError, match="0 to 120"):
        environment(count)
