# SPDX-License-Identifier: Apache-2.0
"""Which libraries for a GPU a process has mapped with code in them, and those files: /proc/PID/maps and map_files.

Reading maps may wait for the process's own memory lock, so whoever asks does so where that hurts nobody.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterator

from tracer.events import CodeLooked, GpuLibrary, process_id
from tracer.pseudofiles import read_bytes
from tracer.sources.procfs import read_stat, read_status, text_of

MAPS_BYTES = 8 << 20
"""Some 80,000 mappings; vm.max_map_count is 65,530 by default."""
MAX_LIBRARIES = 64

NVIDIA = "nvidia"
_VENDORS = (
    (rb"libcuda\.so", NVIDIA),
    (rb"libamdhip64\.so|libhsa-runtime64\.so|libgalaxyhip\.so", "amd"),  # ROCm: clr, ROCR-Runtime; Hygon's DTK
    (rb"libze_loader\.so|libze_intel_gpu\.so", "intel"),  # oneapi-src/level-zero, intel/compute-runtime
    (rb"libSynapse\.so", "habana"),  # Gaudi
    (rb"libascendcl\.so", "huawei"),  # CANN
    (rb"libnrt\.so", "aws neuron"),  # aws-neuronx-runtime-lib
    (rb"libtpu\.so", "google"),
    (rb"libmusa\.so", "moore threads"),
    (rb"libcndrv\.so|libcnrt\.so", "cambricon"),
    (rb"libmcruntime\.so", "metax"),
)
"""Beginnings of names, up to a version or the end."""
_KNOWN = tuple((re.compile(rb"(?:" + names + rb")(?:$|[.])"), vendor) for names, vendor in _VENDORS)
_DELETED = b" (deleted)"
_MEMFD = b"memfd:"
"""How the kernel names what has no file: a library that was loaded from memory."""
_VERSION = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)")


class CodeSource:
    """Reads /proc. Holds no state about processes."""

    def __init__(self, proc_root: str = "/proc", *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc_root = proc_root
        self._clock = clock

    def looked(self, tgid: int, known_bytes: int | None = None) -> CodeLooked | None:
        """What is mapped now. **Slow**: the kernel takes the process's own memory lock for it.

        Args:
            tgid: the process.
            known_bytes: of code, when it was looked at last: if that is still so, nothing has to be read.

        Returns:
            `None`: it is gone, or nothing has changed.
        """
        root = self._proc_root
        before, status = read_stat(root, tgid), read_status(root, tgid)
        if before is None or status is None or status.tgid != tgid or before.kernel_thread:
            return None
        if status.code_bytes is None or status.code_bytes == known_bytes:
            return None  # a zombie has no code any more
        now_ns = self._clock()
        maps = read_bytes(f"{root}/{tgid}/maps", MAPS_BYTES)
        after = read_stat(root, tgid)
        if after is None or after.start_tick != before.start_tick:
            return None
        found = [] if maps is None else [library for library, _ in gpu_libraries(maps)]
        whole = maps is not None and len(maps) < MAPS_BYTES and len(found) < MAX_LIBRARIES
        return CodeLooked(
            ts_ns=now_ns,
            source="proc",
            start_ns=after.start_ns,
            tgid=tgid,
            code_bytes=status.code_bytes,
            libraries=tuple(found),
            complete=whole,
            why_not=None if maps is not None else "its mappings cannot be read",
        )

    def open(self, tgid: int, start_ns: int, library: GpuLibrary) -> int | None:
        """Descriptor of the very file that the process has mapped, whatever its path means to us or to it by now.

        **Slow**, as `looked` is. `None`: it cannot be had.
        """
        root = self._proc_root
        maps = read_bytes(f"{root}/{tgid}/maps", MAPS_BYTES) or b""
        places = [
            f"{root}/{tgid}/map_files/{text_of(span)}"
            for found, span in gpu_libraries(maps)
            if (found.device, found.inode) == (library.device, library.inode)
        ]
        # map_files wants CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the initial user namespace.
        places.append(f"{root}/{tgid}/root{library.path}")
        for place in places:
            fd = open_regular(place)
            if fd is None:
                continue
            now = read_stat(root, tgid)
            same = now is not None and process_id(tgid, now.start_ns) == process_id(tgid, start_ns)
            if same and os.fstat(fd).st_ino == library.inode:
                return fd
            os.close(fd)
        return None


def gpu_libraries(maps: bytes) -> Iterator[tuple[GpuLibrary, bytes]]:
    """Each such file once, with the addresses of its first mapping that may be executed."""
    seen: set[tuple[bytes, bytes]] = set()
    for line in maps.split(b"\n"):
        # 7f0-7f1 r-xp OFFSET DEVICE INODE PATH
        fields = line.split(None, 5)
        if len(fields) < 6 or b"x" not in fields[1] or not fields[5].startswith(b"/"):
            continue
        path = fields[5].removesuffix(_DELETED)
        name = path.rpartition(b"/")[2].removeprefix(_MEMFD)
        vendor = next((vendor for known, vendor in _KNOWN if known.match(name)), None)
        key = (fields[3], fields[4])
        if vendor is None or key in seen or not fields[4].isdigit() or len(seen) >= MAX_LIBRARIES:
            continue
        seen.add(key)
        device, inode = text_of(fields[3]), int(fields[4])
        library = GpuLibrary(name=text_of(name), path=text_of(path), vendor=vendor, device=device, inode=inode)
        yield library, fields[0]


def open_regular(path: str) -> int | None:
    """Descriptor of a file that is one; `None`: there is none, or it may not be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def place_of(fd: int) -> tuple[str, int]:
    """Device and inode of an open file, as /proc/PID/maps has them where the file system has no devices of its own."""
    found = os.fstat(fd)
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}", found.st_ino


def driver_version(fd: int) -> str | None:
    """Of the driver whose library this is, by its name."""
    try:
        name = os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2]
    except OSError:
        return None
    match = _VERSION.match(name)
    return None if match is None else match[1]
