# SPDX-License-Identifier: Apache-2.0
"""What to change where memory was refused: the bound that refused it first, with the numbers of the run put in."""

from collections.abc import Iterable

from tracer.attribution.places import Place
from tracer.units import GIB, MIB, format_bytes
from tracer.verdict.model import Remedy
from tracer.verdict.refused.bounds import Bound
from tracer.verdict.refused.rooms import Room
from tracer.verdict.verify import AGAIN


def of_allocation(bound: Bound, asked_bytes: int | None, place: Place | None) -> tuple[Remedy, ...]:
    """Host memory."""
    if bound.which == "address_space":
        return tuple(_address_space(bound, place))
    if bound.which == "strict_overcommit":
        return tuple(_promises(bound))
    if bound.which == "more_than_there_is" and asked_bytes is not None:
        return (_too_large(asked_bytes),)
    return (
        Remedy(
            do="Find the bound: ulimit -v and -d of the job's shell, vm.overcommit_memory with CommitLimit in "
            "/proc/meminfo, vm.max_map_count where there are many small mappings; or a size that is wrong.",
            why="none of these was seen to be near; an OOM kill would have been seen",
            costs="nothing",
            verify="ulimit -v -d; cat /proc/sys/vm/overcommit_memory; grep -i commit /proc/meminfo; "
            "wc -l /proc/PID/maps",
        ),
    )


def _address_space(bound: Bound, place: Place | None) -> Iterable[Remedy]:
    where = "ulimit -v unlimited in the shell or script that starts the job (LimitAS=infinity in a unit)"
    if place is not None and place.slurm_job is not None:
        where = "ulimit -v unlimited in the batch script, and sbatch --propagate=NONE (Slurm hands on the limits of "
        where += "the shell that submits)"
    yield Remedy(
        do=f"Raise or lift the limit of address space: {where}; or find who sets RLIMIT_AS in the job.",
        why=f"it counts all that is mapped, touched or not (libraries, stacks of threads, what CUDA reserves): "
        f"{format_bytes(bound.bound_bytes)} of it are no {format_bytes(bound.bound_bytes)} of RAM",
        costs="nothing else bounds the job then: give it --memory-max or a pod's limit instead, which count RAM",
        verify=AGAIN,
    )
    yield Remedy(
        do="Or map less in that process: fewer threads (OMP_NUM_THREADS, torch.set_num_threads), no library that it "
        "does not need, data in pieces.",
        why="a thread takes 8 MiB for its stack and 64 MiB or 128 MiB for its heap's arena (MALLOC_ARENA_MAX=2)",
        costs="slower work on the CPU",
        verify=AGAIN,
    )


def _promises(bound: Bound) -> Iterable[Remedy]:
    yield Remedy(
        do="sysctl vm.overcommit_memory=0, or a higher vm.overcommit_ratio, or more swap (it need never be used).",
        why=f"with 2 the machine promises {format_bytes(bound.bound_bytes)} in all, and private memory counts from the "
        "moment it is mapped; each fork of a large process counts it once more",
        costs="what is promised and not there ends in OOM kills",
        verify=AGAIN,
    )
    yield Remedy(
        do="Or fewer DataLoader workers, or workers that start before the large data are loaded "
        "(multiprocessing_context='forkserver').",
        why="a fork is promised all private memory of the process that forks",
        costs="slower loading, or a slower start",
        verify=AGAIN,
    )


def _too_large(asked_bytes: int) -> Remedy:
    return Remedy(
        do=f"Look where {format_bytes(asked_bytes)} are asked for at once: a shape that is wrong, an outer product, "
        "int64 where int32 does, a whole dataset in one array; work in pieces, or map a file (numpy.memmap).",
        why="no machine of this size can have it, whatever else runs",
        costs="some code",
        verify=AGAIN,
    )


def of_shared_memory(
    room: Room | None, place: Place | None, workers: int, holder: str | None = None
) -> tuple[Remedy, ...]:
    """For shared memory: both sharing strategies of torch.multiprocessing have their files in that tmpfs.

    Args:
        room: how full it was.
        place: where the process ran.
        workers: of DataLoaders.
        holder: who has most of it mapped.
    """
    return (*((_kept(holder),) if holder is not None else ()), *_of_tmpfs(room, place, workers))


def _kept(holder: str) -> Remedy:
    return Remedy(
        do=f"Let {holder} keep no batches as they come from a DataLoader: keep numbers (loss.item()), or clone() the "
        "part that is needed.",
        why="it has most of what lies in /dev/shm mapped: a tensor from a worker lies there as long as any view of it",
        costs="a copy of what is kept",
        verify=AGAIN,
    )


def _of_tmpfs(room: Room | None, place: Place | None, workers: int) -> tuple[Remedy, ...]:
    size = room.fill.size_bytes if room is not None else None
    wanted = None if size is None else max(2 * size, 64 * MIB)
    return (
        Remedy(
            do=f"More room in /dev/shm: {_more_room(wanted, place)}.",
            why=("it has the default of container runtimes, " if size == 64 * MIB else "it has ")
            + (f"{format_bytes(size)}" if size is not None else "a size of its own")
            + "; each batch of a DataLoader worker lies there until the trainer drops it, whatever the sharing "
            "strategy of torch.multiprocessing",
            costs="what lies there is RAM, and counts against the limit of its container or pod",
            verify="df -h /dev/shm",
        ),
        Remedy(
            do="Or less in it: prefetch_factor=1"
            + (f", num_workers={max(1, workers // 2)} instead of {workers}" if workers else ", fewer workers")
            + ", smaller batches or uint8 instead of float32 in transit; num_workers=0 uses none.",
            why="num_workers x prefetch_factor x one batch wait there",
            costs="the trainer may wait for data",
            verify=AGAIN,
        ),
        Remedy(
            do="Remove what earlier runs left there: torch_* files of processes that are gone.",
            why="a worker that is killed while it allocates leaves its file behind",
            costs="nothing",
            verify="ls -l /dev/shm; du -sh /dev/shm",
        ),
    )


def _more_room(wanted_bytes: int | None, place: Place | None) -> str:
    size = f"{-(-wanted_bytes // MIB)}m" if wanted_bytes is not None and wanted_bytes < GIB else (
        f"{-(-wanted_bytes // GIB)}g" if wanted_bytes is not None else "8g"
    )  # fmt: skip
    kubernetes = (
        f"an emptyDir with medium: Memory and sizeLimit: {size[:-1]}{size[-1].upper()}i, mounted at /dev/shm of the "
        "container"
    )
    docker = f"docker run --shm-size={size} (compose: shm_size), or --ipc=host"
    if place is not None and place.pod_uid is not None:
        return kubernetes
    if place is not None and place.container is not None:
        return docker
    return f"mount -o remount,size={size} /dev/shm; in a container {docker}; in Kubernetes {kubernetes}"
