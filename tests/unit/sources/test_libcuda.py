# SPDX-License-Identifier: Apache-2.0
"""A libcuda is found by the linker's cache, in the usual folders, and where a caller looks first; each file once."""

import os

from tracer.sources.libcuda import MAX_FILES, find_libcudas, has_driver


def put(root, path, content=b"x"):
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def found(root, more=()):
    paths = []
    for path, fd in find_libcudas(str(root), more):
        os.close(fd)
        paths.append(path)
    return paths


def test_a_machine_without_one_has_none(tmp_path):
    assert found(tmp_path) == []
    assert not has_driver(str(tmp_path))


def test_usual_folders_are_looked_into_and_a_link_is_the_file_that_it_leads_to(tmp_path):
    real = put(tmp_path, "/usr/lib64/libcuda.so.595.45.04")
    (real.parent / "libcuda.so.1").symlink_to(real.name)
    os.makedirs(tmp_path / "lib64")
    (tmp_path / "lib64" / "libcuda.so.1").symlink_to(real)
    put(tmp_path, "/usr/local/cuda-13.0/compat/libcuda.so.1")

    assert found(tmp_path) == ["/usr/lib64/libcuda.so.1", "/usr/local/cuda-13.0/compat/libcuda.so.1"]


def test_the_linkers_cache_leads_anywhere(tmp_path):
    put(tmp_path, "/nix/store/abc/libcuda.so.1")
    put(
        tmp_path,
        "/etc/ld.so.cache",
        b"glibc-ld.so.cache1.1\0\1libcuda.so.1\0/nix/store/abc/libcuda.so.1\0/lib/libc.so.6\0",
    )

    assert found(tmp_path) == ["/nix/store/abc/libcuda.so.1"]


def test_folders_of_the_caller_come_first_and_relative_ones_are_none(tmp_path):
    put(tmp_path, "/mine/libcuda.so.1")
    put(tmp_path, "/usr/lib64/libcuda.so.1")

    assert found(tmp_path, ["", ".", "mine", "/mine"]) == ["/mine/libcuda.so.1", "/usr/lib64/libcuda.so.1"]


def test_what_is_no_file_is_passed_over_and_there_are_not_more_than_so_many(tmp_path):
    os.makedirs(tmp_path / "usr/lib64/libcuda.so.1")
    for number in range(2 * MAX_FILES):
        put(tmp_path, f"/usr/local/cuda-{number}/compat/libcuda.so.1")

    assert len(found(tmp_path)) == MAX_FILES


def test_a_driver_is_there_by_its_device_or_by_that_of_wsl(tmp_path):
    put(tmp_path, "/dev/dxg")

    assert has_driver(str(tmp_path))
