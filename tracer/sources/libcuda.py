# SPDX-License-Identifier: Apache-2.0
"""Where a libcuda may lie before anyone has mapped it: the dynamic linker's cache, and the usual folders."""

import glob
import os
import re
from collections.abc import Iterable, Iterator

from tracer.pseudofiles import read_bytes
from tracer.sources.code import open_regular, place_of

NAME = "libcuda.so.1"
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/cuda/compat",
    "/usr/local/cuda-*/compat",
    "/usr/lib/wsl/lib",
    "/usr/lib/wsl/drivers/*",
    "/run/opengl-driver/lib",
    "/home/kubernetes/bin/nvidia/lib64",
    "/opt/nvidia/lib64",
)
"""Distributions, the container toolkit, forward compatibility, WSL, NixOS, GKE and Bottlerocket."""
MAX_FILES = 4
_CACHE_BYTES = 16 << 20
_CACHED = re.compile(rb"/[^\0]{1,4000}/libcuda\.so\.1(?=\0)")


def find_libcudas(root: str = "", more: Iterable[str] = ()) -> Iterator[tuple[str, int]]:
    """Path, as seen from the root, and an open descriptor, the caller's, of each different file.

    Args:
        root: of the file system to look in: `/proc/PID/root`.
        more: folders to look in first, as LD_LIBRARY_PATH names them.
    """
    seen: set[tuple[str, int]] = set()
    for path in _candidates(root, more):
        fd = open_regular(root + path)
        if fd is None:
            continue
        if place_of(fd) in seen or len(seen) >= MAX_FILES:
            os.close(fd)
            continue
        seen.add(place_of(fd))
        yield path, fd


def has_driver(root: str = "") -> bool:
    """Whether there is a driver for NVIDIA's GPUs, or what stands for it in WSL."""
    return any(os.path.exists(root + path) for path in ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg"))


def _candidates(root: str, more: Iterable[str]) -> Iterator[str]:
    yield from (f"{folder}/{NAME}" for folder in more if folder.startswith("/"))
    cache = read_bytes(f"{root}/etc/ld.so.cache", _CACHE_BYTES) or b""
    yield from sorted({os.fsdecode(path) for path in _CACHED.findall(cache)})
    for folder in FOLDERS:
        yield from (path[len(root) :] for path in sorted(glob.glob(f"{glob.escape(root)}{folder}/{NAME}")))
