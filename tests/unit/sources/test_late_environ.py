# SPDX-License-Identifier: Apache-2.0
"""Variables that were set after exec: only those that are named, of real programs, and whatever memory may hold."""

import contextlib
import os
import random
import struct
import subprocess
import sys

import psutil
import pytest
from hypothesis import given, settings, strategies as st

from tracer.sources import late_environ
from tracer.sources.environ_names import ALLOWED_NAMES
from tracer.sources.late_environ import NAME_BYTES, find_symbol, named_variables, read_late_environ

NAMES = {"RANK", "LOCAL_RANK", "WORLD_SIZE"}
WAITS = "print('ready', flush=True); sys.stdin.read()"

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="little-endian images only")


@pytest.fixture
def told():
    """Starts a program that says when it is ready; reads its memory; ends it."""

    def read(*command, names=NAMES, **kwargs):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs) as child:
            assert child.stdout.readline() == b"ready\n"
            found = read_late_environ("/proc", child.pid, names)
            child.kill()
        return found

    return read


def test_what_python_set_after_its_start_is_read(told):
    program = f"import os, sys; os.environ['RANK'] = '3'; os.environ['LOCAL_RANK'] = '1'; {WAITS}"
    found = told(sys.executable, "-c", program, env={"WORLD_SIZE": "8", "RANK": "0"})

    assert found == {"WORLD_SIZE": "8", "RANK": "3", "LOCAL_RANK": "1"}


def test_a_forked_child_has_it_too(told):
    program = (
        "import os, sys; os.environ['RANK'] = '3'\n"
        "if os.fork() == 0:\n"
        "    os.environ['LOCAL_RANK'] = '2'\n"
        "    os.execv('/proc/self/exe', [sys.executable, '-c', 'import sys; " + WAITS.replace("'", '"') + "'])\n"
        "os.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"ready\n"
        child = psutil.Process(parent.pid).children()[0].pid
        found = [read_late_environ("/proc", pid, {"RANK", "LOCAL_RANK"}) for pid in (parent.pid, child)]
        parent.stdin.close()
        parent.kill()

    assert found == [{"RANK": "3"}, {"RANK": "3", "LOCAL_RANK": "2"}]


def test_what_was_taken_out_again_is_not_there(told):
    assert told(sys.executable, "-c", f"import os, sys; del os.environ['RANK']; {WAITS}", env={"RANK": "0"}) == {}


def test_no_other_variable_is_read(told):
    environ = {"HF_TOKEN": "s3cr3t", "RANK": "1", "RANKS": "s3cr3t", "NRANK": "s3cr3t", "EMPTY": ""}

    assert told(sys.executable, "-c", f"import sys; {WAITS}", env=environ, names=ALLOWED_NAMES) == {"RANK": "1"}


@pytest.mark.parametrize("value", ["", "x" * (NAME_BYTES - 6), "x" * NAME_BYTES, "x" * 250])
def test_a_value_of_any_length_is_whole(told, value):
    assert told(sys.executable, "-c", f"import sys; {WAITS}", env={"RANK": value}) == {"RANK": value}


def test_a_value_that_never_ends_is_none(told):
    assert told(sys.executable, "-c", f"import sys; {WAITS}", env={"RANK": "x" * 5000, "WORLD_SIZE": "1"}) == {
        "WORLD_SIZE": "1"
    }


def test_many_variables_are_no_trouble(told):
    environ = {f"V{n}": "x" * n for n in range(700)} | {"RANK": "1"}

    assert told(sys.executable, "-c", f"import sys; {WAITS}", env=environ) == {"RANK": "1"}


def test_a_shell_has_what_it_exported(told):
    assert told("/bin/bash", "-c", "export RANK=5; /bin/true; echo ready; read x")["RANK"] == "5"


@pytest.mark.parametrize("pid", [0, -1, 1 << 40])
def test_a_process_that_cannot_be_is_not_readable(pid):
    assert read_late_environ("/proc", pid, NAMES) is None


def test_one_that_has_ended_is_not_readable(tmp_path):
    child = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = read_late_environ("/proc", child.pid, NAMES)
    child.wait()

    assert not found
    assert read_late_environ("/proc", child.pid, NAMES) is None


class Memory:
    """Made-up memory with one image at `BASE`."""

    BASE = 0x5555_0000_0000

    def __init__(self, image: bytes) -> None:
        self.image = image
        self.reads = 0

    def __call__(self, address: int, size: int) -> bytes:
        self.reads += 1
        assert self.reads < 2_000_000, "it reads for ever"
        at = address - self.BASE
        return self.image[at : at + size] if 0 <= at else b""


def own_image() -> bytes:
    """The first part of this very program, or of its libc, as it lies in memory."""
    with open("/proc/self/maps", "rb") as file:
        maps = file.read()
    base = late_environ._images(maps)[-1]
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(base)
        return memory.read(1 << 16)


IMAGE = own_image()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4096), st.binary(min_size=1, max_size=8)), max_size=12), st.integers(0, 1 << 16)
)
def test_a_damaged_image_is_given_up(changes, length):
    image = bytearray(IMAGE)
    for at, what in changes:
        image[at : at + len(what)] = what
    with contextlib.suppress(struct.error, OverflowError):  # what the caller takes for "not readable"
        named_variables(Memory(bytes(image[:length])), [Memory.BASE], NAMES)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=600))
def test_memory_that_is_no_image_has_no_symbol(raw):
    assert find_symbol(Memory(raw), Memory.BASE) is None


def test_an_image_of_random_numbers_ends():
    noise = random.Random(7).randbytes(1 << 14)
    for at in range(64):
        with contextlib.suppress(struct.error, OverflowError):
            find_symbol(Memory(IMAGE[:64] + noise[at:]), Memory.BASE)
