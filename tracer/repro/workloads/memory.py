# SPDX-License-Identifier: Apache-2.0
"""Acts: the ways in which a job's memory grows. Standard library only."""

import ctypes
import fcntl
import mmap
import os
import signal
import time
from collections.abc import Callable, Iterator

from tracer.repro.workloads import stage
from tracer.repro.workloads.stage import MIB

F_SETPIPE_SZ, MAP_NORESERVE = 1031, 0x4000
READ_MIB, TRIED_MIB, CACHED_MIB = 80, 16, 12
DATASET_ITEMS, COPIERS = 220_000, 4


def anon(most_mib: str = "256") -> None:
    """The job itself grows by private anonymous memory."""
    stage.be(b"grower")
    stage.say("pid", str(os.getpid()))
    stage.eat(int(most_mib))


def shmem() -> None:
    """The same with memory that it could share."""
    stage.be(b"sharer")
    for _ in range(256):
        stage.take(MIB, shared=True)


def mlocked() -> None:
    """The same with memory that is locked, as memory pinned for a device is."""
    stage.be(b"pinner")
    for _ in range(256):
        memory = mmap.mmap(-1, MIB, mmap.MAP_ANONYMOUS | mmap.MAP_PRIVATE)
        stage.kept.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if stage.libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(MIB)) != 0:
            stage.cannot(f"memory cannot be locked: {os.strerror(ctypes.get_errno())}")


def tmpfs_full() -> None:
    """A batch is written into a tmpfs that is too small, through a mapping, as PyTorch does in /dev/shm."""
    where = stage.private_tmpfs(1, "/dev/shm")  # noqa: S108 - over it, in a mount namespace of its own

    def write_batch() -> None:
        with open(f"{where}/batch", "w+b") as file:
            file.truncate(4 * MIB)
            stage.touch(mmap.mmap(file.fileno(), 4 * MIB))

    code = stage.end_of(stage.child(write_batch, b"batcher"))
    time.sleep(2)  # as a trainer takes its time to end; the tmpfs goes with it, and can be looked at no more
    stage.finish(code)


def tmpfs_dataset() -> None:
    """A dataset is copied into a tmpfs: it counts as memory of the job."""
    stage.be(b"copier")
    where = stage.private_tmpfs(256)
    with open(f"{where}/dataset", "wb", buffering=0) as file:
        file.writelines(b"d" * MIB for _ in range(200))


def page_cache() -> None:
    """One process reads files all the time, and another one grows."""
    stage.be(b"job")
    reader = stage.child(_read_all_the_time, b"reader")
    eater = stage.child(_grow_beside, b"eater")
    code = stage.end_of(eater)
    os.kill(reader, signal.SIGTERM)
    os.waitpid(reader, 0)
    stage.finish(code)


def _read_all_the_time() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    path = next((path for path in _files() if _read(path, TRIED_MIB) and _cached_bytes() >= CACHED_MIB * MIB), None)
    if path is None:
        stage.say("cached", "no")
        return
    stage.say("cached", "yes")
    while True:
        _read(path, READ_MIB)


def _files() -> Iterator[str]:
    sparse = os.path.join(stage.folder(), "data")
    with open(sparse, "wb") as file:
        file.truncate(READ_MIB * MIB)
    yield sparse
    # On a tmpfs a hole takes no memory: whatever is there to be read.
    libraries = os.path.dirname(next((line.split()[-1] for line in _maps() if "/libc" in line), "/usr/lib/"))
    found = [entry for entry in os.scandir(libraries) if entry.is_file() and entry.stat().st_size > TRIED_MIB * MIB]
    # Two of them: reading may be slow where it is not cached.
    yield from sorted((entry.path for entry in found), key=lambda path: os.stat(path).st_size)[-2:]


def _maps() -> list[str]:
    with open("/proc/self/maps", encoding="utf-8") as file:
        return file.readlines()


def _read(path: str, most_mib: int) -> bool:
    with open(path, "rb", buffering=0) as file:
        for _ in range(most_mib):
            file.read(MIB)
    return True


def _cached_bytes() -> int:
    key = "file" if stage.version() == 2 else "total_cache"
    return stage.value(f"{stage.cgroup()}/memory.stat", key)


def _grow_beside() -> None:
    if stage.hear("cached") == "no":
        stage.cannot("no file here is read through the page cache of a cgroup (all lie on a tmpfs)")
    stage.eat()


def copy_on_write() -> None:
    """Workers that only look at a list of Python objects copy its pages: looking counts references."""
    stage.be(b"main")
    dataset = [str(number) + " of a dataset" for number in range(DATASET_ITEMS)]
    stage.prctl(stage.PR_SET_CHILD_SUBREAPER, 1)
    workers = [
        stage.child(lambda number=number: _look(dataset, number), b"pt_data_worker")  # type: ignore[misc]
        for number in range(COPIERS)
    ]
    stage.say("look")
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    stage.say("over")
    stage.finish(max(stage.end_of(pid) for pid in workers))


def _look(dataset: list[str], number: int) -> None:
    stage.prctl(stage.PR_SET_PDEATHSIG, signal.SIGKILL)
    stage.hear("look")
    seen = list(dataset)  # each item's count of references is written to
    stage.say(f"looked{number}")
    # Kept until all have a copy, or one of them died of it.
    stage.wait_for(lambda: _said("over") or all(_said(f"looked{each}") for each in range(COPIERS)))
    del seen


def _said(what: str) -> bool:
    return os.path.exists(os.path.join(stage.folder(), what))


def pipes() -> None:
    """The kernel's memory grows, and no process's: pipes that are full."""
    stage.be(b"plumber")
    for _ in range(256):
        read_fd, write_fd = os.pipe()
        try:
            fcntl.fcntl(write_fd, F_SETPIPE_SZ, MIB)
        except OSError as error:
            stage.cannot(f"no large pipe can be made: {error.strerror}")
        stage.kept.append((read_fd, write_fd))
        os.set_blocking(write_fd, False)
        os.write(write_fd, b"p" * MIB)


def inodes() -> None:
    """The same by files of a tmpfs: each one's inode and name are kept in memory."""
    stage.be(b"clerk")
    where = stage.private_tmpfs(16)
    for number in range(200_000):
        os.close(os.open(f"{where}/{number:0200}", os.O_CREAT | os.O_WRONLY))


def page_tables() -> None:
    """The same by page tables: one for each piece of 2 MiB of which a byte is read, and no page is ever written."""
    stage.be(b"mapper")
    for _ in range(256):
        memory = mmap.mmap(-1, 1024 * MIB, mmap.MAP_ANONYMOUS | mmap.MAP_PRIVATE | MAP_NORESERVE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        stage.kept.append(memory)
        for at in range(0, len(memory), 2 * MIB):
            stage.kept.append(memory[at])


def grow_in(node: str) -> None:
    """A child moves into a cgroup further down and grows there."""
    stage.be(b"job")
    stage.finish(stage.end_of(stage.child(lambda: _grow_there(node), b"grower")))


def _grow_there(node: str) -> None:
    stage.enter(node)
    stage.eat()


def group_elsewhere(victims: str, triggers: str) -> None:
    """As `victim_elsewhere`, and the large one has a small companion in its cgroup."""
    stage.be(b"job")
    stage.be_spared()
    companion = stage.child(lambda: _be_with(victims), b"companion")
    stage.hear("companion")
    _play_elsewhere(victims, triggers, companion)


def _be_with(node: str) -> None:
    stage.be_chosen(0)
    stage.enter(node)
    stage.say("companion")
    stage.sleep()


def victim_elsewhere(victims: str, triggers: str) -> None:
    """Two processes in two cgroups below one limit: the large one is killed when the small one asks for more."""
    stage.be(b"job")
    stage.be_spared()
    _play_elsewhere(victims, triggers)


def _play_elsewhere(victims: str, triggers: str, *others: int) -> None:
    large = stage.child(lambda: _be_large(victims), b"large")
    stage.hear("large")
    small = stage.child(lambda: _be_the_last_straw(triggers), b"small")
    died = {stage.end_of(pid) for pid in (large, *others)}
    stage.finish(9 if died == {9} and stage.end_of(small) == 0 else 1)


def _be_large(node: str) -> None:
    stage.enter(node)
    stage.be_chosen()
    stage.take(40 * MIB)
    stage.say("large")
    stage.sleep()


def _be_the_last_straw(node: str) -> None:
    stage.enter(node)
    stage.take(30 * MIB)


def slowly() -> None:
    """Grows for as long as it is let: what is throttled hardly gets further."""
    stage.be(b"throttled")
    stage.say("pid", str(os.getpid()))
    stage.eat(256, pause_s=0.001)
    stage.sleep()


def incompressible(most_mib: str) -> None:
    """Grows by memory that cannot be compressed: with compressed swap anything else would take no room."""
    stage.be(b"grower")
    for _ in range(int(most_mib)):
        stage.kept.append(os.urandom(MIB))


ACTS: dict[str, Callable[..., None]] = {
    "anon": anon,
    "shmem": shmem,
    "mlocked": mlocked,
    "tmpfs-full": tmpfs_full,
    "tmpfs-dataset": tmpfs_dataset,
    "page-cache": page_cache,
    "copy-on-write": copy_on_write,
    "pipes": pipes,
    "inodes": inodes,
    "page-tables": page_tables,
    "grow-in": grow_in,
    "group-elsewhere": group_elsewhere,
    "victim-elsewhere": victim_elsewhere,
    "slowly": slowly,
    "incompressible": incompressible,
}
