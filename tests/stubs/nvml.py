# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's management library, built from `nvml.c`: the real pynvml loads it, and it says what a test says."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = "libnvidia-ml.so.1"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GPU_0 = "GPU-00000001-0000-0000-0000-000000000000"
# `oomtrace` on a machine that has the driver's device: the one thing of it that cannot be made in a folder.
PROGRAM = """
import sys
from tracer.sources import gpu
gpu.GpuSource.open.__func__.__kwdefaults__["signs"] = (sys.argv.pop(1),)
from tracer.cli import main
sys.exit(main())
"""


@functools.cache
def built(*flags: str) -> bytes:
    """The library."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, LIBRARY)
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *flags, "-o", path, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        return path.read_bytes()


class StubNvml:
    """A folder with the library, for LD_LIBRARY_PATH."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.library = folder / LIBRARY
        self.library.write_bytes(built(*flags))
        self.says()

    def says(self, *lines: str, **values: object) -> None:
        """From now on; without a word: one device of 80 GiB, 1 GiB of it used."""
        text = "".join(f"{line}\n" for line in (*lines, *(f"{key} {value}" for key, value in values.items())))
        new = self.library.with_suffix(".new")
        new.write_text(text)
        os.replace(new, f"{self.library}.conf")

    def command(self, *words: object) -> list[str]:
        """`oomtrace` with these arguments, on a machine with an NVIDIA driver."""
        return [sys.executable, "-c", PROGRAM, str(self.library), *map(str, words)]

    @property
    def environ(self) -> dict[str, str]:
        names = (name for name in os.environ if not name.startswith("SUDO_"))
        given = {name: os.environ[name] for name in names}
        return given | {"LD_LIBRARY_PATH": str(self.folder), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
