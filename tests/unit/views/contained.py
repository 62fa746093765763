# SPDX-License-Identifier: Apache-2.0
"""Reports of what happened in containers whose pids are not the kernel's, written by hand."""

from tests.unit.views.building import AT, entry, links, report
from tracer.attribution.cgroup_paths import place_of
from tracer.units import GIB, MIB
from tracer.verdict.model import Collateral, Culprit, Incident, Job, Limit, Process, Sender

CONTAINER = "/docker/4b7d9e02c1f86a354b7d9e02c1f86a354b7d9e02c1f86a354b7d9e02c1f86a35"
LOADER = Process(
    pid=41233,
    ns_pids=(41233, 17),
    comm="pt_data_worker",
    role="dataloader_worker",
    rank=0,
    worker=2,
    rss_anon_bytes=6 * GIB,
    cgroup=CONTAINER,
    place=place_of(CONTAINER),
)

CONTAINED = report(
    Incident(
        cause="host_oom_cgroup",
        strength="proved",
        at=AT,
        headline="Killed by the kernel: host RAM ran out at a cgroup limit",
        summary=f"DataLoader worker 2 of rank 0 (pid 41233) died at 14:02:31.118 UTC because cgroup {CONTAINER} "
        "reached its limit: 8 GiB of 8 GiB.",
        victim=LOADER,
        victims=(LOADER,),
        trigger=Process(pid=41240, ns_pids=(41240, 19), comm="python", role="rank", rank=1),
        culprit=Culprit(pid=41233, ns_pids=(41233, 17), why="2 GiB to 6 GiB of anonymous memory in 30 s."),
        limit=Limit(constraint="CONSTRAINT_MEMCG", cgroup=CONTAINER, cgroups=(CONTAINER,), place=place_of(CONTAINER)),
        signal=9,
        proof=links(
            "+ SIGKILL from the kernel and the OOM mark for pid 41233.",
            f"+ The limit of {CONTAINER}.",
            "+ launcher 41200 > rank 0 41210 > worker 2 41233",
            "+ Exit by signal 9, 3.1 ms later.",
            "? GPU calls were not watched.",
        ),
        collateral=(
            Collateral(pid=41210, ns_pids=(41210, 12), who="rank 0", how="rank 0: exit 1, 3 s later"),
            Collateral(pid=41200, ns_pids=(41200, 1), who="launcher", how="launcher: exit 1, 4 s later"),
        ),
    ),
    timeline=(entry(0, "kill", "worker 2", "6 GiB anonymous", pid=41233, primary=True),),
    job=Job(argv=("torchrun", "train.py"), pid=41200, status="exit 1"),
)

STEP = "/system.slice/slurmstepd.scope/job_51723/step_0/user/task_3"
DEEP = Process(pid=902, ns_pids=(902, 31, 7), comm="python", role="job", rss_anon_bytes=212 * MIB, cgroup=STEP)
TERMINATED = report(
    Incident(
        cause="sigkill",
        strength="proved",
        at=AT,
        headline="Killed with SIGKILL by 'sh' (pid 880)",
        victim=DEEP,
        victims=(Process(pid=902, ns_pids=(902, 31, 7), comm="python", role="job", cgroup=STEP, place=place_of(STEP)),),
        sender=Sender(pid=880, ns_pids=(880, 30, 6), comm="sh", kind="job", uid=0),
        signal=9,
    ),
    job=Job(pid=902, status="signal 9"),
)
