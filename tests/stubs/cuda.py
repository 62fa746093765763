# SPDX-License-Identifier: Apache-2.0
"""A libcuda without a GPU, and a program that calls it as a static libcudart does: built from C for a test."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import DEADLINE_S, put_down

FOLDER = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY = 0, 1, 2
DEVICE_BYTES = 16 << 30

IN_PYTHON = r"""
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    name, *numbers = line.split()
    place = ctypes.c_uint64()
    given = [ctypes.byref(place) if number == "&" else ctypes.c_uint64(int(number)) for number in numbers]
    print(getattr(cuda, name)(*given), place.value, flush=True)
"""


def needed() -> str:
    """The compiler; skips where there is none."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    return COMPILER


def build_library(folder: Path, name: str = "libcuda.so.1") -> Path:
    """A libcuda of its own, with an inode of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    command = [needed(), "-shared", "-fPIC", "-fvisibility=hidden", *FLAGS, "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, "-o", path, FOLDER / "cuda.c", "-ldl", "-lpthread"], check=True)
    return path


def build_caller(folder: Path) -> Path:
    """The program that calls it."""
    path = folder / "caller"
    subprocess.run([needed(), *FLAGS, "-o", path, FOLDER / "cuda_caller.c", "-ldl", "-lpthread"], check=True)
    return path


class Caller:
    """A process that calls a libcuda line by line: see cuda_caller.c."""

    def __init__(self, *command: str | Path, **more) -> None:
        self.process = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more
        )
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    @classmethod
    def in_python(cls, library: Path, **more) -> "Caller":
        """The same with ctypes; knows only lines of a name and numbers, `&` for where to put an answer."""
        return cls(sys.executable, "-I", "-S", "-c", IN_PYTHON, library, **more)

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> str:
        self.tell(line)
        return self.process.stdout.readline().strip()

    def load(self, library: Path) -> None:
        assert self.do(f"load {library}") == "loaded"

    def call(self, line: str) -> int:
        """Its result."""
        return int(self.do(f"call {line}"))

    def finish(self) -> int:
        self.process.stdin.close()
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        put_down(self.process)
