# SPDX-License-Identifier: Apache-2.0
"""Whose memory has other code than a library's file, in a /proc made by hand."""

import os

import pytest

from tracer.kernel.rewritten import Rewritten

CODE = bytes(range(64))
JUMP = b"\x49\xbb" + bytes(8) + b"\x41\xff\xe3"
AT = 16


@pytest.fixture
def scene(tmp_path):
    """A library, and processes that have it mapped at address 0 of their memory."""
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(CODE)
    fd = os.open(library, os.O_RDONLY)
    proc = tmp_path / "proc"
    proc.mkdir()

    def process(pid, code, *, maps=None, memory=True):
        folder = proc / str(pid)
        folder.mkdir()
        inode = library.stat().st_ino
        line = f"00000000-00000040 r-xp 00000000 00:2a {inode}   {library}\n"
        (folder / "maps").write_text(line if maps is None else maps)
        if memory:
            (folder / "mem").write_bytes(code)

    process.why = lambda: Rewritten(fd, str(proc)).why(AT)
    yield process
    os.close(fd)


def changed(at, new):
    return CODE[:at] + new + CODE[at + len(new) :]


@pytest.mark.parametrize("at", [AT, AT + 4, AT + 15])
def test_a_function_that_a_process_has_hooked_is_not_to_be_probed(scene, at):
    scene(5, CODE)
    scene(7, changed(at, JUMP))
    assert scene.why() == "process 7 has hooked it: it runs other code there than the file has"


@pytest.mark.parametrize("breakpoint_", [b"\xcc", b"\xa0\x00\x20\xd4", b"\x00\x00\x20\xd4"])
def test_a_breakpoint_of_another_tracer_is_no_hook(scene, breakpoint_):
    scene(7, changed(AT, breakpoint_))
    assert scene.why() is None


def test_a_breakpoint_over_a_hook_is_a_hook(scene):
    scene(7, changed(AT, b"\xcc" + JUMP[1:]))
    assert "process 7 has hooked it" in scene.why()


@pytest.mark.parametrize(
    "code", [CODE, changed(0, JUMP), changed(AT + 16, JUMP), CODE[: AT + 3], b""], ids=range(5)
)  # fmt: skip
def test_what_is_changed_elsewhere_or_is_gone_hinders_nothing(scene, code):
    scene(7, code)
    scene(8, CODE, memory=False)
    assert scene.why() is None


def test_of_processes_without_that_code_mapped_nothing_is_read(scene):
    scene(7, JUMP * 4, maps="00000000-00000040 r--p 00000000 00:2a 5   /x\nnonsense\n\n1-2 r-xp\n")
    assert scene.why() is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_of_whom_the_memory_cannot_be_read_it_is_not_known(scene, tmp_path):
    scene(7, CODE)
    (tmp_path / "proc/7/mem").chmod(0)
    assert scene.why() == "whether process 7 has hooked it cannot be read"
