# SPDX-License-Identifier: Apache-2.0
"""Reports of OOM kills, written by hand."""

from tests.unit.views.building import AT, entry, links, report, series
from tracer.attribution.cgroup_paths import place_of
from tracer.units import GIB, KIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.model import (
    Collateral,
    Culprit,
    Incident,
    Job,
    Level,
    Limit,
    Process,
    Remedy,
)

RUN = "/oomtrace/run-7f3"

WORKER = Process(
    pid=41233,
    start_ns=4_980 * NS_PER_S,
    ns_pids=(41233,),
    comm="pt_data_worker",
    role="dataloader_worker",
    rank=0,
    worker=2,
    rss_anon_bytes=402 * MIB,
    rss_file_bytes=5 * MIB,
    rss_shmem_bytes=0,
    swap_bytes=0,
    cgroup=RUN,
)

WORKER_KILLED = report(
    Incident(
        cause="host_oom_cgroup",
        strength="proved",
        at=AT,
        headline="Killed by the kernel: host RAM ran out at a cgroup limit",
        summary=f"DataLoader worker 2 of rank 0 (pid 41233) died at 14:02:31.118 UTC because cgroup {RUN} "
        "reached its limit: 512 MiB of 512 MiB.",
        victim=WORKER,
        victims=(WORKER,),
        trigger=Process(pid=41210, comm="python", role="rank", rank=0),
        culprit=Culprit(
            pid=41233, why="61 MiB to 402 MiB of anonymous memory in 12.0 s; the other workers stayed flat."
        ),
        limit=Limit(
            constraint="CONSTRAINT_MEMCG",
            cgroup=RUN,
            cgroups=(RUN,),
            usage_bytes=512 * MIB,
            limit_bytes=512 * MIB,
            chain=(
                Level(cgroup=RUN, usage_bytes=512 * MIB, limit_bytes=512 * MIB, limited=True, oom_events=1, owner=True),
                Level(cgroup="/oomtrace", usage_bytes=513 * MIB, limited=False),
                Level(cgroup="/", usage_bytes=9 * GIB, limited=False),
            ),
        ),
        signal=9,
        proof=links(
            "+ SIGKILL from the kernel and the OOM mark for pid 41233, in one go; the kernel's log agrees.",
            f"+ The limit of {RUN}; no limit above it was near.",
            "+ launcher 41200 > rank 0 41210 > worker 2 41233",
            "+ Exit by signal 9, 3.1 ms later.",
            "? GPU calls were not watched.",
        ),
        collateral=(Collateral(pid=41210, how="exit code 1 after its worker was gone"),),
        remedies=(
            Remedy(
                do="Give the job more memory: the workers need about 180 MiB more than the limit allows.",
                verify="oomtrace run --memory-max 768M -- torchrun --nproc-per-node 1 train.py",
            ),
        ),
    ),
    timeline=(
        entry(
            -12 * NS_PER_S,
            "memory",
            "worker 2",
            "61 MiB to 402 MiB, +28.4 MiB/s",
            pid=41233,
            series=series(61, 75, 98, 130, 160, 188, 214, 246, 280, 310, 344, 371, 402),
        ),
        entry(
            -12 * NS_PER_S, "memory", "worker 0", "58 MiB, flat; 1 and 3 alike", series=series(58, 58, 58, 58, 58, 58)
        ),
        entry(-400 * NS_PER_MS, "reclaim", RUN, "31 runs in 212 ms, nothing more to free"),
        entry(0, "kill", "worker 2", "402 MiB anonymous, 5 MiB file", pid=41233, primary=True),
        entry(3_100_000, "exit", "worker 2", "signal 9", pid=41233),
        entry(4_200 * NS_PER_MS, "exit", "rank 0", "code 1", collateral=True),
        entry(4_460 * NS_PER_MS, "exit", "launcher", "code 1", collateral=True),
    ),
    job=Job(argv=("torchrun", "--nproc-per-node", "1", "train.py"), pid=41200, status="exit 1"),
)

POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6b1f4c0e_2f5d_4c8e_9d55_0c2d2e7a1f11.slice"
CONTAINER = f"{POD}/cri-containerd-9f2c1e7ab04d3c55e1b0b9a7d6c5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7.scope"
RANKS = tuple(
    Process(
        pid=7_201 + rank,
        ns_pids=(7_201 + rank, 17 + rank),
        comm="python",
        role="rank",
        rank=rank,
        rss_anon_bytes=(31 + 4 * (rank == 3)) * GIB + 300 * MIB * rank,
        rss_file_bytes=402 * MIB,
        rss_shmem_bytes=2 * GIB,
        cgroup=CONTAINER,
        place=place_of(CONTAINER),
    )
    for rank in (3, 0, 1, 2, 4, 5, 6, 7)
)

GROUP_KILL = report(
    Incident(
        cause="host_oom_cgroup",
        strength="proved",
        at=AT,
        headline="All 8 ranks killed by the kernel: host RAM ran out at a cgroup limit",
        summary=f"Rank 3 (pid 7204) and the 7 others in its cgroup died at 14:02:31.118 UTC because "
        f"{CONTAINER} reached its limit, 256 GiB of 256 GiB, and memory.oom.group is set there.",
        victim=RANKS[0],
        victims=RANKS,
        trigger=RANKS[2],
        culprit=Culprit(
            pid=7204, why="anonymous memory 12.4 GiB to 35.9 GiB in 48 s; the other ranks grew by less than 1 GiB."
        ),
        limit=Limit(
            constraint="CONSTRAINT_MEMCG",
            cgroup=CONTAINER,
            place=place_of(CONTAINER),
            usage_bytes=256 * GIB,
            limit_bytes=256 * GIB,
            chain=(
                Level(
                    cgroup=CONTAINER,
                    place=place_of(CONTAINER),
                    usage_bytes=256 * GIB,
                    limit_bytes=256 * GIB,
                    limited=True,
                    swap_usage_bytes=0,
                    swap_limit_bytes=0,
                    oom_events=1,
                    owner=True,
                ),
                Level(
                    cgroup=POD,
                    place=place_of(POD),
                    usage_bytes=256 * GIB + 2 * MIB,
                    limit_bytes=264 * GIB,
                    limited=True,
                    swap_usage_bytes=0,
                    swap_limit_bytes=0,
                ),
                Level(cgroup="/kubepods.slice/kubepods-burstable.slice", usage_bytes=310 * GIB, limited=False),
                Level(cgroup="/kubepods.slice", usage_bytes=322 * GIB, limit_bytes=1000 * GIB, limited=True),
                Level(cgroup="/", usage_bytes=331 * GIB, limited=False),
            ),
        ),
        signal=9,
        proof=links(
            "+ SIGKILL from the kernel and OOM marks for all 8 processes within 2.2 ms.",
            f"+ The limit of {CONTAINER}: its own OOM count rose from 0 to 1. The pod above had 7.99 GiB left.",
            "+ launcher 7190 > ranks 0 to 7",
            "+ All 8 exits by signal 9, the last 212 ms later.",
            "? GPU calls were not watched.",
        ),
    ),
    timeline=(
        entry(
            -48 * NS_PER_S,
            "memory",
            "rank 3",
            "12.4 GiB to 35.9 GiB, +501 MiB/s",
            series=series(*(12_400 + 500 * n for n in range(48))),
        ),
        entry(
            -48 * NS_PER_S,
            "memory",
            "ranks 0-2, 4-7",
            "30.6 GiB to 31.3 GiB each",
            series=series(*(30_600 + 15 * n for n in range(48))),
        ),
        entry(-2_300 * NS_PER_MS, "reclaim", "the container", "4112 runs, stalled for 1.9 s in all, 61 MiB freed"),
        entry(0, "kill", "rank 3", "35.9 GiB anonymous; and 7 more by memory.oom.group", primary=True),
        entry(2_200_000, "exit", "rank 3", "signal 9"),
        entry(212 * NS_PER_MS, "exit", "ranks 0-2, 4-7", "signal 9"),
        entry(5_050 * NS_PER_MS, "exit", "launcher", "code 1", collateral=True),
    ),
    job=Job(
        argv=("torchrun", "--nproc-per-node", "8", "train.py", "--config", "configs/large.yaml"),
        pid=7190,
        status="exit 1",
    ),
    caveats=("The tracer runs in the same pod: another group kill could end it too.",),
)

STEP = "/slurm/uid_1000/job_88/step_0"
TASK = f"{STEP}/task_3"
PYTHON = Process(
    pid=5123,
    comm="python",
    role="rank",
    rank=3,
    rss_anon_bytes=14 * GIB,
    rss_file_bytes=31 * MIB,
    rss_shmem_bytes=3 * GIB,
    swap_bytes=212 * MIB,
    cgroup=TASK,
    place=place_of(TASK),
)

GRANDPARENT = report(
    Incident(
        cause="host_oom_cgroup",
        strength="likely",
        at=AT,
        headline="Killed by the kernel: host RAM ran out at a limit above the job",
        summary="Rank 3 (pid 5123) died at 14:02:31.118 UTC because /slurm/uid_1000/job_88, two levels above "
        "its own cgroup, reached its limit: 64 GiB of 64 GiB.",
        victim=PYTHON,
        victims=(PYTHON,),
        trigger=PYTHON,
        limit=Limit(
            constraint="CONSTRAINT_MEMCG",
            cgroup="/slurm/uid_1000/job_88",
            place=place_of("/slurm/uid_1000/job_88"),
            usage_bytes=64 * GIB,
            limit_bytes=64 * GIB,
            chain=(
                Level(
                    cgroup=TASK,
                    usage_bytes=17 * GIB,
                    limit_bytes=80 * GIB,
                    limited=True,
                    swap_usage_bytes=212 * MIB,
                    swap_limit_bytes=8 * GIB,
                ),
                Level(cgroup=STEP, usage_bytes=63 * GIB + 900 * MIB, limited=False),
                Level(
                    cgroup="/slurm/uid_1000/job_88",
                    usage_bytes=64 * GIB,
                    limit_bytes=64 * GIB,
                    limited=True,
                    swap_usage_bytes=GIB,
                    swap_limit_bytes=GIB,
                    oom_events=2,
                    owner=True,
                ),
                Level(
                    cgroup="/slurm/uid_1000",
                    usage_bytes=70 * GIB,
                    limit_bytes=500 * GIB,
                    limited=True,
                    swap_usage_bytes=GIB,
                ),
                Level(cgroup="/slurm", usage_bytes=None, limited=None),
                Level(cgroup="/", usage_bytes=96 * GIB, limited=False),
            ),
        ),
        signal=9,
        proof=links(
            "+ SIGKILL from the kernel and the OOM mark for pid 5123.",
            "+ The limit of /slurm/uid_1000/job_88: its own OOM count rose to 2.",
            "+ srun 5100 > rank 3 5123",
            "? The recording ends before its exit.",
            "? GPU calls were not watched.",
        ),
    ),
    Incident(
        cause="host_oom_cgroup",
        strength="likely",
        at="2026-11-30T14:02:33.500000Z",
        headline="Killed by the kernel: rank 1 (pid 5121) at the same limit",
    ),
    timeline=(
        entry(
            -125 * NS_PER_S,
            "memory",
            "rank 3",
            "9 GiB to 14 GiB",
            series=series(9000, 9100, None, None, 11000, 12000, 14000),
        ),
        entry(0, "kill", "rank 3", "14 GiB anonymous, 3 GiB shared", primary=True),
        entry(900 * NS_PER_MS, "kill", "mysqld (812)", "in another job", outside=True),
        entry(2_381 * NS_PER_MS, "kill", "rank 1", "13.2 GiB anonymous"),
    ),
    caveats=(
        "The recording has no end: the tracer was stopped or died before it was done.",
        "12 kernel records were lost.",
    ),
)

TRAINER = Process(
    pid=2210, comm="python", role="job", rss_anon_bytes=118 * GIB, rss_file_bytes=12 * KIB, swap_bytes=8 * GIB
)
GLOBAL_OOM = report(
    Incident(
        cause="host_oom_global",
        strength="proved",
        at=AT,
        headline="Killed by the kernel: the machine ran out of RAM and swap",
        summary="python (pid 2210) died "
        "at 14:02:31.118 UTC because the whole machine had run out: no cgroup limit was hit.",
        victim=TRAINER,
        victims=(TRAINER,),
        trigger=Process(pid=611, comm="sshd", role="outside"),
        culprit=Culprit(pid=2210, why="118 GiB of the 125 GiB that the machine has."),
        limit=Limit(
            constraint="CONSTRAINT_NONE", mem_available_bytes=310 * MIB, swap_free_bytes=0, swap_total_bytes=8 * GIB
        ),
        signal=9,
        proof=links(
            "+ SIGKILL from the kernel and the OOM mark for pid 2210.",
            "+ Free memory was below the watermark of every zone, and swap was full.",
            "+ job 2210",
            "+ Exit by signal 9, 1.2 s later.",
            "+ No process of the job had mapped libcuda.",
        ),
        remedies=(
            Remedy(do="Read the data set from disk as it is needed (memory-mapped) instead of loading it whole."),
            Remedy(
                do="Or run on a machine with more RAM.",
                verify="oomtrace compare oomtrace-20261130-140219-41200.oomtrace AFTER.oomtrace",
            ),
        ),
    ),
    timeline=(
        entry(
            -3_700 * NS_PER_S,
            "memory",
            "job",
            "2.1 GiB to 118 GiB",
            series=series(*(2_100 + 1_932 * n for n in range(61))),
        ),
        entry(-31 * NS_PER_S, "reclaim", "machine", "swap full, 91 % of the time stalled for memory"),
        entry(0, "kill", "job", "118 GiB anonymous, 8 GiB swapped out", primary=True),
        entry(1_200 * NS_PER_MS, "exit", "job", "signal 9"),
    ),
    job=Job(argv=("python", "train.py", "--data", "/data/imagenet"), pid=2210, status="signal 9"),
)
