# SPDX-License-Identifier: Apache-2.0
"""Libraries for GPUs among what a process has mapped, and the very files."""

import mmap
import os
import time

import pytest
from hypothesis import given, strategies as st

from tests.kernel.workload import start_ns
from tracer.events import GpuLibrary
from tracer.sources.code import CodeSource, driver_version, gpu_libraries, open_regular, place_of

LINE = b"7f0000000000-7f0000001000 r-xp 00000000 fe:00 123 "


def names(maps: bytes) -> list[tuple[str, str]]:
    return [(library.name, library.vendor) for library, _ in gpu_libraries(maps)]


@pytest.fixture
def mapped(tmp_path):
    """A file of that name that this process has mapped with a right to execute it, like code."""
    path = tmp_path / "libcuda.so.550.54.15"
    path.write_bytes(bytes(8192))
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    yield path
    mapping.close()


@pytest.mark.parametrize(
    "path, vendor",
    [
        (b"/usr/lib/x86_64-linux-gnu/libcuda.so.595.45.04", "nvidia"),
        (b"/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1", "nvidia"),
        (b"/opt/a folder/libcuda.so", "nvidia"),
        (b"/opt/rocm/lib/libamdhip64.so.6.2.60200", "amd"),
        (b"/usr/lib/libze_loader.so.1", "intel"),
    ],
)
def test_a_library_is_known_by_its_name(path, vendor):
    [(library, span)] = gpu_libraries(LINE + path + b"\n")

    assert (library.vendor, library.path) == (vendor, path.decode())
    assert (library.device, library.inode, span) == ("fe:00", 123, b"7f0000000000-7f0000001000")


@pytest.mark.parametrize(
    "line",
    [
        LINE + b"/usr/lib/libcudart.so.13",
        LINE + b"/usr/lib/libcuda.sock",
        LINE + b"/usr/lib/xlibcuda.so.1",
        LINE + b"/data/libcuda.so.1/file",
        LINE.replace(b"r-xp", b"r--p") + b"/usr/lib/libcuda.so.1",
        LINE + b"[heap]",
        LINE.strip(),
        b"",
    ],
)
def test_nothing_else_is(line):
    assert names(line + b"\n") == []


def test_a_deleted_file_is_named_without_the_kernels_remark():
    [(library, _)] = gpu_libraries(LINE + b"/tmp/libcuda.so.1 (deleted)\n")

    assert (library.name, library.path) == ("libcuda.so.1", "/tmp/libcuda.so.1")


def test_a_library_that_was_loaded_from_memory_is_known_by_the_name_that_it_has_there():
    assert names(LINE + b"/memfd:libcuda.so.1 (deleted)\n") == [("libcuda.so.1", "nvidia")]


def test_each_file_is_told_once_and_two_of_one_name_are_two():
    other = LINE.replace(b"123", b"124") + b"/b/libcuda.so.1\n"

    assert len(names((LINE + b"/a/libcuda.so.1\n") * 2 + other)) == 2


@given(st.binary(max_size=300))
def test_anything_else_is_read_without_an_error(noise):
    assert all(library.path.startswith("/") for library, _ in gpu_libraries(noise + b"\n" + LINE + noise))


def test_a_process_is_looked_at_with_how_much_code_it_has(mapped):
    source = CodeSource()
    before_ns = time.monotonic_ns()
    looked = source.looked(os.getpid())

    assert looked.start_ns == start_ns(os.getpid())
    assert [(library.path, library.inode) for library in looked.libraries] == [(str(mapped), mapped.stat().st_ino)]
    assert (looked.complete, looked.why_not) == (True, None)
    assert looked.code_bytes > 1 << 20
    assert before_ns < looked.ts_ns < time.monotonic_ns()


def test_as_long_as_the_code_is_the_same_nothing_is_read():
    source = CodeSource()
    looked = source.looked(os.getpid())

    assert source.looked(os.getpid(), looked.code_bytes) is None


def test_who_is_gone_or_a_kernel_thread_is_no_one():
    assert CodeSource().looked(2) is None
    assert CodeSource().looked(1 << 22) is None


def test_mappings_that_cannot_be_read_are_no_sign_of_absence(tmp_path):
    pid = tmp_path / "7"
    pid.mkdir()
    stat = "7 (x) S 1 7 7 0 -1 4194304 " + " ".join(["0"] * 12) + " 55 " + " ".join(["0"] * 29) + "\n"
    (pid / "stat").write_text(stat)
    (pid / "status").write_text("Tgid:\t7\nVmExe:\t4 kB\nVmLib:\t8 kB\n")
    looked = CodeSource(str(tmp_path)).looked(7)

    assert (looked.code_bytes, looked.libraries, looked.complete) == (12288, (), False)
    assert looked.why_not == "its mappings cannot be read"


def test_the_very_file_is_opened_also_where_it_was_replaced(mapped):
    [library] = CodeSource().looked(os.getpid()).libraries
    held = mapped.stat().st_ino
    mapped.unlink()
    mapped.write_bytes(b"another one")
    fd = CodeSource().open(os.getpid(), start_ns(os.getpid()), library)
    if fd is None:
        pytest.skip("map_files may not be read here")
    found = os.fstat(fd).st_ino
    os.close(fd)

    assert found == held


def test_of_another_process_with_that_pid_nothing_is_opened(mapped):
    [library] = CodeSource().looked(os.getpid()).libraries

    assert CodeSource().open(os.getpid(), 1, library) is None


def test_what_is_not_mapped_is_not_opened_by_its_path_alone(tmp_path):
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(b"x")
    library = GpuLibrary(name=path.name, path=str(path), vendor="nvidia", device="00:01", inode=path.stat().st_ino + 1)

    assert CodeSource().open(os.getpid(), start_ns(os.getpid()), library) is None


def test_only_a_regular_file_is_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")

    assert [open_regular(str(path)) for path in (tmp_path, tmp_path / "fifo", tmp_path / "none", "/dev/null")] == [
        None
    ] * 4


def test_a_file_is_known_by_its_place_and_a_driver_by_its_files_name(mapped):
    with open(mapped, "rb") as file:
        device, inode = place_of(file.fileno())
        assert driver_version(file.fileno()) == "550.54.15"
    with open(__file__, "rb") as file:
        assert driver_version(file.fileno()) is None

    assert inode == mapped.stat().st_ino
    assert [int(part, 16) for part in device.split(":")] == [
        os.major(mapped.stat().st_dev),
        os.minor(mapped.stat().st_dev),
    ]
