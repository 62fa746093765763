# SPDX-License-Identifier: Apache-2.0
"""Why memory grew: real PyTorch programs, each killed under its limit, and their fixed twins, which are not.

What a program is fixed by stands in its own words (tracer/repro/workloads/mechanisms). `among` are the mechanisms that
leave the same traces in the kernel and in /proc: from outside it is the class that can be told.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tracer.repro.scenario import HOST_OOM, Expected, Node, Scenario, Stage, Truth

PREFIX = "mechanism-"
IN_ONE_PROCESS = ("main_process_growth", "preprocessing_in_process", "allocator_retention")
"""A graph that is kept, lists of results, Python objects, a heap that is not given back: all rise the same."""
AT_ONCE = ("checkpoint_spike", "optimizer_state")
"""One allocation that is not repeated."""
IN_EACH_RANK = ("model_duplication", "dataset_in_ram")


class _Kind(NamedTuple):
    """One mechanism."""

    name: str
    """Of the program."""
    what: str
    why: str
    memory_mib: int
    among: tuple[str, ...] = ()
    fixed_mib: int | None = None
    """The limit of the fixed twin, where it is that which is fixed."""
    needs: tuple[str, ...] = ("torch",)
    shows: str | None = None
    """The mechanism, if that is not what the program is called."""

    @property
    def mechanism(self) -> str:
        return self.shows or self.name


KINDS = (
    _Kind(
        "worker_cache",
        "each DataLoader worker caches every image in a dict of its own",
        "an object is a worker's own after fork(2), and lives as long as what refers to it: anonymous pages that are "
        "charged to who touches them first (do_anonymous_page(), mm/memory.c)",
        700,
        ("allocator_retention",),
    ),
    _Kind(
        "worker_cache_one",
        "one DataLoader worker of two caches every image in a dict of its own",
        "the largest process is chosen, whoever asks for the last page: oom_badness() (mm/oom_kill.c)",
        550,
        ("allocator_retention",),
        shows="worker_cache",
    ),
    _Kind(
        "cow_refcount",
        "forked DataLoader workers read a list of a million strings",
        "a write to a page that fork(2) had shared is copied and charged anew: wp_page_copy() (mm/memory.c); looking "
        "at a Python object writes its count of references",
        850,
    ),
    _Kind(
        "rank_asymmetry",
        "rank 0 has a process beside it that keeps all metrics",
        "the limit is that of all ranks of the pod: try_charge_memcg() (mm/memcontrol.c)",
        1000,
    ),
    _Kind(
        "rank_asymmetry_itself",
        "rank 0 keeps what it logs of each step, and the other rank does not",
        "the limit is that of all ranks of the pod: try_charge_memcg() (mm/memcontrol.c)",
        1000,
        shows="rank_asymmetry",
    ),
    _Kind(
        "prefetch_queue",
        "four workers times four batches of 24 MiB wait in shared memory for a slow device",
        "a batch is a file of shmem that its worker allocates whole: shmem_fallocate() (mm/shmem.c); what is not "
        "mapped is in no process's RSS",
        650,
        needs=("torch", "shm"),
    ),
    _Kind(
        "shm_held",
        "the trainer keeps the batches that it got from its workers, in shared memory",
        "pages of shmem live as long as a descriptor or a mapping of their file: shmem_evict_inode() (mm/shmem.c)",
        600,
        needs=("torch", "shm"),
    ),
    _Kind(
        "pinned_memory",
        "each step makes a new page-locked buffer, and keeps it (without CUDA: mlock)",
        "mlock(2) populates the pages at once: do_mlock(), __mm_populate() (mm/gup.c)",
        500,
        IN_ONE_PROCESS,
    ),
    _Kind(
        "main_process_growth",
        "losses are summed up with their graph, and all activations with them",
        "private anonymous memory of one process: do_anonymous_page() (mm/memory.c)",
        500,
        IN_ONE_PROCESS,
    ),
    _Kind(
        "optimizer_state",
        "the first step of Adam over weights that are kept on the CPU",
        "a large allocation is mmap(2), and charged as it is written: do_anonymous_page() (mm/memory.c)",
        680,
        AT_ONCE,
    ),
    _Kind(
        "checkpoint_spike",
        "weights are cloned and serialized in memory before they are written to a file",
        "a large allocation is mmap(2), and charged as it is written: do_anonymous_page() (mm/memory.c)",
        600,
        AT_ONCE,
    ),
    _Kind(
        "model_duplication",
        "each of two ranks reads the whole model into memory of its own",
        "what read(2) copies is charged once more for each who reads; what is mapped is one page of the cache for all "
        "(filemap_map_pages(), mm/filemap.c)",
        950,
        IN_EACH_RANK,
    ),
    _Kind(
        "dataset_in_ram",
        "each of two ranks tokenizes the whole dataset into memory of its own",
        "private anonymous memory of each rank: do_anonymous_page() (mm/memory.c)",
        950,
        IN_EACH_RANK,
    ),
    _Kind(
        "preprocessing_in_process",
        "the training process tokenizes by itself, into lists of numbers that it keeps",
        "private anonymous memory of one process: do_anonymous_page() (mm/memory.c)",
        500,
        IN_ONE_PROCESS,
    ),
    _Kind(
        "tmpfs_data",
        "a dataset is copied into /dev/shm before it is read",
        "pages of a tmpfs are charged to the cgroup of who writes them and cannot be written back (mm/shmem.c)",
        600,
        needs=("torch", "shm"),
    ),
    _Kind(
        "allocator_retention",
        "threads free all that they decoded, and their arenas of malloc keep it",
        "memory below a chunk in use is not given back by brk(2) or munmap(2): heap_trim() of glibc (malloc/arena.c)",
        600,
        IN_ONE_PROCESS,
    ),
    _Kind(
        "kernel_memory",
        "each step leaves pipes behind that are full",
        "pages of a pipe are charged with __GFP_ACCOUNT (fs/pipe.c) and belong to no process's RSS",
        500,
    ),
    _Kind(
        "limit_too_tight",
        "a job at a steady level right below its limit gets its longest batch",
        "a charge that reclaim cannot make room for asks the OOM killer: try_charge_memcg() (mm/memcontrol.c)",
        480,
        AT_ONCE,
        fixed_mib=640,
    ),
)


def _scenarios() -> Iterator[Scenario]:
    for kind in KINDS:
        act = ("mechanism", kind.name)
        yield _killed(kind, act, Stage(memory_mib=kind.memory_mib))
        yield _lives(kind, (*act, "--fixed"), Stage(memory_mib=kind.fixed_mib or kind.memory_mib))
    beside = Stage(memory_mib=760, below=(Node(path="neighbour"),))
    yield _killed(NEIGHBOUR, ("mechanism", "neighbour"), beside, actor=("neighbour", "420"))
    yield _lives(NEIGHBOUR, ("mechanism", "neighbour", "--fixed"), beside, actor=("neighbour", "100"))
    yield Scenario(
        name=f"{PREFIX}page-cache",
        what="workers read far more from files than the limit lets in, and nothing is killed",
        why="page cache is reclaimed before anything is killed: shrink_inactive_list() (mm/vmscan.c)",
        act=("mechanism", "page_cache"),
        needs=("torch",),
        stage=Stage(memory_mib=500),
        expected=Expected(cause=("exited",), status="exit 0", never=HOST_OOM),
        seconds=SECONDS,
        truth=Truth(mechanism=None),
    )


SECONDS = 240
NEIGHBOUR = _Kind(
    "neighbour",
    "a process that is no part of the job takes the rest of what both may have together",
    "a limit is that of all below it, and the largest of them is chosen: mem_cgroup_scan_tasks() (mm/memcontrol.c), "
    "oom_badness() (mm/oom_kill.c)",
    760,
)


def _killed(kind: _Kind, act: tuple[str, ...], stage: Stage, actor: tuple[str, ...] | None = None) -> Scenario:
    return Scenario(
        name=PREFIX + kind.name.replace("_", "-"),
        what=kind.what,
        why=kind.why,
        act=act,
        actor=actor,
        needs=kind.needs,
        stage=stage,
        # Whoever asks again before the memory of the first has been freed may be taken, too.
        expected=Expected(cause=("host_oom_cgroup",), killed=(1, 9), limit="."),
        seconds=SECONDS,
        truth=Truth(mechanism=kind.mechanism, among=tuple(name for name in kind.among if name != kind.mechanism)),
    )


def _lives(kind: _Kind, act: tuple[str, ...], stage: Stage, actor: tuple[str, ...] | None = None) -> Scenario:
    return Scenario(
        name=f"{PREFIX}{kind.name.replace('_', '-')}-fixed",
        what=f"the same, put right: {kind.what}",
        why=kind.why,
        act=act,
        actor=actor,
        needs=kind.needs,
        stage=stage,
        expected=Expected(cause=("exited",), status="exit 0", never=HOST_OOM),
        seconds=SECONDS,
        truth=Truth(mechanism=kind.mechanism, fixed=True),
    )


SCENARIOS = tuple(_scenarios())
