# SPDX-License-Identifier: Apache-2.0
"""What the acts of the catalogue are made of: memory, names, children, cgroups, and words between processes.

Standard library only. Each process takes memory up to a bound, even where the limit should not hold.
"""

import contextlib
import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

MIB = 1024 * 1024
CANNOT = 77
"""Exit status of an act that finds that it cannot be played here; why stands in the file `cannot`."""
PATIENCE_S = 300.0
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
CLONE_NEWNS, CLONE_NEWPID = 0x0002_0000, 0x2000_0000
MS_REC, MS_PRIVATE = 0x4000, 0x4_0000

libc = ctypes.CDLL(None, use_errno=True)
kept: list[object] = []


def folder() -> str:
    """What the processes of one scenario share."""
    return os.environ["REPRO_FOLDER"]


def cgroup(node: str = "") -> str:
    """The directory of the scenario's cgroup, or of one below it."""
    return os.path.join(os.environ["REPRO_CGROUP"], node)


def version() -> int:
    """Of the cgroups."""
    return int(os.environ["REPRO_CGROUP_VERSION"])


def say(what: str, text: str = "") -> None:
    """Tell the others, whole or not at all."""
    path = os.path.join(folder(), what)
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(f"{path}.{os.getpid()}", path)


def wait_for(condition: Callable[[], object]) -> None:
    """Until it holds, or far too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(0.005)


def hear(what: str) -> str:
    """Wait until somebody has said it; what was said."""
    path = os.path.join(folder(), what)
    wait_for(lambda: os.path.exists(path))
    with open(path, encoding="utf-8") as file:
        return file.read()


def cannot(why: str) -> NoReturn:
    """This machine has no stage for the act."""
    say("cannot", why)
    os._exit(CANNOT)


def be(name: bytes) -> None:
    """What this thread is called. Any bytes: the kernel keeps fifteen."""
    with open("/proc/thread-self/comm", "wb", buffering=0) as file:
        file.write(name)


def be_chosen(oom_score_adj: int = 1000) -> None:
    """Of all in the same plight, have the OOM killer take this one."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(oom_score_adj))


def be_spared() -> None:
    """Where that is allowed, have the OOM killer never take this one, nor its children unless they say otherwise.

    A victim that is past exit_mm() is chosen no more, while on a slow machine its memory is still being freed: the
    next one is taken then, though there will be enough.
    """
    with contextlib.suppress(PermissionError):
        be_chosen(-1000)


def take(size_bytes: int, *, shared: bool = False) -> mmap.mmap:
    """Anonymous memory, every page touched."""
    memory = mmap.mmap(-1, size_bytes, mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE))
    kept.append(memory)
    touch(memory)
    return memory


def touch(memory: mmap.mmap) -> None:
    """Write to every page."""
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 1


def eat(most_mib: int = 256, *, pause_s: float = 0.0) -> None:
    """Grow a piece at a time, and no further than that."""
    for _ in range(most_mib):
        take(MIB)
        if pause_s:
            time.sleep(pause_s)


def enter(node: str) -> None:
    """Move into a cgroup of the scenario: what is touched from now on counts there."""
    with open(f"{cgroup(node)}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


def value(file: str, key: str | None = None) -> int:
    """A number in a file, or in its line `key number`; 0: there is none."""
    with contextlib.suppress(OSError, ValueError), open(file, encoding="ascii") as lines:
        if key is None:
            return int(lines.read())
        return next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), 0)
    return 0


def child(work: Callable[[], object], name: bytes | None = None) -> int:
    """Fork; the child works under that name and ends with 0. Its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if name is not None:
            be(name)
        work()
        code = 0
    finally:
        os._exit(code)


def end_of(pid: int) -> int:
    """Wait for a child; 9: SIGKILL, or that is what it says itself, 0: well, 77: cannot, 1: all else."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return 9 if os.WTERMSIG(status) == signal.SIGKILL else 1
    return os.WEXITSTATUS(status) if os.WEXITSTATUS(status) in {0, 9, CANNOT} else 1


def sleep() -> NoReturn:
    """Until something ends it."""
    while True:
        signal.pause()


def prctl(option: int, argument: int) -> None:
    """Settings of this process alone."""
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def unshare(flags: int) -> None:
    """Namespaces of its own."""
    if libc.unshare(flags) != 0:
        cannot(f"no namespace can be made: {os.strerror(ctypes.get_errno())}")


def private_tmpfs(size_mib: int, where: str | None = None) -> str:
    """A small tmpfs that nobody else sees, and that ends with this process. Its folder."""
    unshare(CLONE_NEWNS)
    where = os.path.join(folder(), "tmpfs") if where is None else where
    os.makedirs(where, exist_ok=True)
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    options = f"size={size_mib}m,mode=700".encode()
    if libc.mount(b"tmpfs", os.fsencode(where), b"tmpfs", 0, options) != 0:
        cannot(f"no tmpfs can be mounted: {os.strerror(ctypes.get_errno())}")
    return where


def finish(code: int) -> NoReturn:
    """End the job with a status of its own making."""
    sys.stdout.flush()
    os._exit(code)
