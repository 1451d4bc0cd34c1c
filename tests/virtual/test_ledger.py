"""What processes hold on the virtual GPUs, as others read it."""

from __future__ import annotations

import os
import subprocess
import sys

from ddpdoctor.virtual import environment, ledger
from ddpdoctor.virtual.devices import Machine, uuid

PROGRAM = """
import sys, torch
torch.cuda.set_device(1)
x = torch.ones(1 << 20, device="cuda")
y = torch.ones(3, device="cuda:0")
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_process_is_listed_with_its_bytes_and_the_line_that_opened_the_context(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "ledger"
    child = subprocess.Popen(
        [sys.executable, str(program)],
        env=environment(2, 8 << 30, folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        first, second = ledger.read(folder)
        assert (first.pid, first.device_index, first.uuid) == (child.pid, 0, uuid(0))
        assert second.opened_by == f"{program}:3"
        assert first.opened_by == f"{program}:5"
        assert second.bytes >= (4 << 20) + (8 << 30) // 64
        assert second.opened_at <= first.opened_at
        child.communicate("\n", timeout=60)
        ended = ledger.read(folder)
        assert [held.bytes for held in ended] == [0, 0]
        assert ended[1].peak_bytes == second.peak_bytes
    finally:
        child.kill()
        child.wait()


def test_devices_are_listed_before_any_process_starts(tmp_path):
    ledger.create(tmp_path, Machine(3, 5).devices())
    listed = ledger.devices(tmp_path)
    assert [(each.index, each.uuid, each.total_bytes) for each in listed] == [
        (index, uuid(index), 5) for index in range(3)
    ]
    assert ledger.read(tmp_path) == []


def test_a_pid_used_again_by_another_process_holds_nothing(tmp_path):
    held = ledger.Holding(os.getpid(), 0, uuid(0), 100, 100, 0.0, None)
    ledger.write(tmp_path, held)
    file = tmp_path / f"{os.getpid()}-0.json"
    assert ledger.read(tmp_path)[0].bytes == 100
    started = ledger.process_started(os.getpid())
    file.write_text(file.read_text().replace(str(started), str(started - 1)))
    assert ledger.read(tmp_path)[0].bytes == 0


def test_reading_needs_no_torch(tmp_path):
    code = (
        "import sys; from ddpdoctor.virtual import environment, ledger, gpus, on_context; "
        f"ledger.read({str(tmp_path)!r}); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
