"""What the tests of several parts share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "gpus" / "mock_nvml.c"
# Loaded by absolute path before anything asks for it: the loader then answers a request for
# "libnvidia-ml.so.1" with this one, because its soname is the same. Only the process that watches
# gets it; a rank that loaded it would believe in GPUs which are not there.
_PRELOAD = "import ctypes; ctypes.CDLL({library!r}); "


@dataclass(frozen=True)
class MockNvml:
    """The real NVML binding's library replaced by one that answers from a state file."""

    library: Path
    state: Path

    def write(self, text: str) -> None:
        """Set the machine (the grammar stands in mock_nvml.c); replaced in one step."""
        new = self.state.with_suffix(".new")
        new.write_text(text)
        new.replace(self.state)

    def gpus(self, count: int, *lines: str) -> None:
        """Set a machine of equal GPUs with UUIDs from uuid(i), and further lines."""
        cards = [
            f"gpu {self.uuid(i)} 00000000:{i + 1:02X}:00.0 81559 NVIDIA H100" for i in range(count)
        ]
        self.write("\n".join([*cards, *lines, ""]))

    @staticmethod
    def uuid(index: int) -> str:
        return f"GPU-{index:08x}-1111-2222-3333-444444444444"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "MOCK_NVML_STATE": str(self.state)}

    def command(self, *arguments: str) -> list[str]:
        """`ddpdoctor ARGUMENTS` with the library preloaded in that process alone."""
        code = _PRELOAD.format(library=str(self.library)) + (
            f"import sys; sys.argv = ['ddpdoctor', *{arguments!r}]; "
            "from ddpdoctor.cli import main; sys.exit(main())"
        )
        return [sys.executable, "-c", code]

    def python(self, code: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run Python code with the library preloaded."""
        return subprocess.run(
            [sys.executable, "-c", _PRELOAD.format(library=str(self.library)) + "\n" + code],
            env={**self.environment(), **extra},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="session")
def mock_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the mock NVML with")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    output = ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(library)]
    subprocess.run(
        [compiler, "-shared", "-fPIC", *warnings, *output, str(_SOURCE)], check=True, timeout=60
    )
    return library


@pytest.fixture
def mock_nvml(mock_nvml_library: Path, tmp_path: Path) -> MockNvml:
    """A machine without GPUs until the test writes one."""
    mock = MockNvml(mock_nvml_library, tmp_path / "nvml-state")
    mock.write("")
    return mock
