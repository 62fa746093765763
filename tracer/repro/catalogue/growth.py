# SPDX-License-Identifier: Apache-2.0
"""What grew: shared memory, a tmpfs, copies, a cache, the kernel's own; and what must not be blamed."""

from tracer.repro.scenario import HOST_OOM, Expected, Scenario, Stage

SCENARIOS = (
    Scenario(
        name="page-cache",
        what="one process fills the cgroup with page cache, another one grows: the reader is not to blame",
        why="page cache is reclaimed before anything is killed, and oom_badness() does not count what is not mapped "
        "(mm/oom_kill.c)",
        act=("page-cache",),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="eater",
            limit=".",
            not_blamed="reader",
            status="exit 9",
        ),
    ),
    Scenario(
        name="shmem",
        what="memory that processes could share grows",
        why="shared anonymous memory is a file of shmem: MM_SHMEMPAGES, shmem-rss in the kernel's report (mm/shmem.c)",
        act=("shmem",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="sharer", limit=".", status="signal 9", shmem_mib=40
        ),
    ),
    Scenario(
        name="shm-full",
        what="a tmpfs for shared memory is full: a write through a mapping ends in SIGBUS, and nothing is killed",
        why="shmem_fault() returns VM_FAULT_SIGBUS when the tmpfs is at its size (mm/shmem.c); no cgroup is involved",
        act=("tmpfs-full",),
        # Which mapping the write went to is not watched.
        expected=Expected(
            cause=("shm_exhausted",),
            at_least="likely",
            at_most="likely",
            sender="kernel",
            victim="batcher",
            status="exit 1",
            never=HOST_OOM,
        ),
    ),
    Scenario(
        name="tmpfs-dataset",
        what="a dataset is copied into a tmpfs, which counts as the job's memory",
        why="pages of a tmpfs are charged to the cgroup of who writes them and cannot be written back (mm/shmem.c)",
        act=("tmpfs-dataset",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="copier", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="copy-on-write",
        what="workers that only read Python objects copy them, by counting references",
        why="a write to a page that fork(2) had shared is copied and charged anew: wp_page_copy() (mm/memory.c)",
        act=("copy-on-write",),
        stage=Stage(memory_mib=80),
        expected=Expected(cause=("host_oom_cgroup",), killed=(1, 5), limit="."),
    ),
    Scenario(
        name="worker-cache",
        what="a DataLoader worker keeps every sample that it made",
        why="the largest process is chosen: oom_badness() is its resident and swapped memory and page tables "
        "(mm/oom_kill.c)",
        act=("dataloader", "--workers", "4", "--leaking-worker", "2", "--rate-mib", "300", "--dataset-mib", "8",
             "--worker-mib", "4", "--seconds", "120"),
        stage=Stage(memory_mib=192),
        expected=Expected(
            cause=("host_oom_cgroup",),
            # Whoever asks again before the memory of the first has been freed may be taken, too.
            killed=(1, 5),
            victim="pt_data_worker",
            victim_role="dataloader_worker",
            limit=".",
            status="exit 1",
        ),
    ),
    Scenario(
        name="kernel-pipes",
        what="the kernel's own memory grows: pipes that are full, and no process that is large",
        why="pages of a pipe are charged with __GFP_ACCOUNT (fs/pipe.c) and belong to no process's RSS: anon-rss of "
        "the victim says nothing",
        act=("pipes",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="plumber", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="kernel-inodes",
        what="the kernel's own memory grows: names and inodes of files in a tmpfs",
        why="dentries and inodes are charged slab objects (SLAB_ACCOUNT); those of a tmpfs cannot be reclaimed "
        "(fs/dcache.c, mm/shmem.c)",
        act=("inodes",),
        stage=Stage(memory_mib=24),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="clerk", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="kernel-page-tables",
        what="the kernel's own memory grows: page tables of a process that has nearly no page of its own",
        why="page tables are charged (GFP_PGTABLE_USER, pte_alloc_one()), a zero page that is read is not; "
        "oom_badness() counts them (mm/memory.c, mm/oom_kill.c)",
        act=("page-tables",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="mapper", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="mlocked",
        what="memory that is locked grows, as memory does that is pinned for a device",
        why="mlock(2) populates the pages at once, in the caller's context: do_mlock(), __mm_populate() (mm/gup.c)",
        act=("mlocked",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="pinner", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="memory-error",
        what="an address space is limited: the allocation fails, Python raises MemoryError and exits",
        why="mmap(2) returns ENOMEM beyond RLIMIT_AS: may_expand_vm() (mm/mmap.c); the OOM killer is never asked",
        act=("memory-error",),
        # A cause of its own, host_allocation_failed, needs the job's own words first.
        expected=Expected(cause=("exited",), victim="trainer", status="exit 1", never=HOST_OOM),
    ),
    Scenario(
        name="overcommit",
        what="the machine hands out no more than it has: MemoryError again",
        why="__vm_enough_memory() refuses with vm.overcommit_memory=2 (mm/util.c)",
        act=("overcommit",),
        where="guest",
        # Set back when it is over; 1000 % keeps all else alive meanwhile.
        stage=Stage(sysctls={"vm.overcommit_ratio": "1000", "vm.overcommit_memory": "2"}),
        expected=Expected(cause=("exited",), victim="trainer", status="exit 1", never=HOST_OOM),
    ),
)  # fmt: skip
