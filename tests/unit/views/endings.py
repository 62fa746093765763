# SPDX-License-Identifier: Apache-2.0
"""Reports of all other endings, written by hand."""

from tests.unit.views.building import AT, AT_NS, entry, links, report
from tracer.units import GIB, KIB, NS_PER_MS, NS_PER_S
from tracer.verdict.model import (
    Collateral,
    Entry,
    Incident,
    Job,
    Process,
    Sender,
)

SHELL = Process(pid=901, comm="sh", role="job", rss_anon_bytes=212 * KIB)
SIGKILL_SELF = report(
    Incident(
        cause="sigkill",
        strength="proved",
        at=AT,
        headline="Killed with SIGKILL by itself, not by the kernel",
        summary="The job's own process (pid 901, sh) sent SIGKILL to itself "
        "at 14:02:31.118 UTC; no memory limit was involved.",
        victim=SHELL,
        victims=(SHELL,),
        sender=Sender(pid=901, comm="sh", kind="self", uid=1000, parent_comm="oomtrace"),
        signal=9,
        proof=links(
            "- The signal came from a process: sh, pid 901.",
            "- No OOM event anywhere in its cgroups.",
            "+ job 901",
            "+ Exit by signal 9, 212 us later.",
            "? GPU calls were not watched.",
        ),
    ),
    timeline=(
        entry(-31 * NS_PER_MS, "start", "job", "sh -c 'kill -9 $$'"),
        entry(0, "signal", "job", "SIGKILL from sh (901), itself", primary=True),
        entry(212_000, "exit", "job", "signal 9"),
    ),
    job=Job(argv=("sh", "-c", "kill -9 $$"), pid=901, status="signal 9"),
)

CRASHED = Process(pid=77, comm="python", role="rank", rank=1, rss_anon_bytes=3 * GIB)
CRASH = report(
    Incident(
        cause="crash",
        strength="proved",
        at=AT,
        headline="Crashed: segmentation fault (SIGSEGV)",
        summary="Rank 1 (pid 77, python) touched memory that it does not have "
        "at 14:02:31.118 UTC; no memory limit was involved.",
        victim=CRASHED,
        signal=11,
        collateral=(Collateral(pid=76, how="SIGTERM from the launcher"),),
    ),
    timeline=(
        entry(0, "signal", "rank 1", "SIGSEGV, a fault of its own", primary=True),
        entry(41 * NS_PER_MS, "exit", "rank 1", "signal 11, core dumped"),
        entry(102 * NS_PER_MS, "signal", "rank 0", "SIGTERM from the launcher", collateral=True),
        entry(131 * NS_PER_MS, "exit", "rank 0", "signal 15", collateral=True),
    ),
    job=Job(argv=("torchrun", "train.py"), pid=70, status="exit 1"),
)

EXITED_0 = report(
    Incident(
        cause="exited",
        strength="proved",
        at=AT,
        headline="The job exited with status 0; nothing was killed",
        summary="It ran for 12 min 4 s and used 3.2 GiB at most, in 6 processes.",
        exit_code=0,
    ),
    timeline=(entry(-724 * NS_PER_S, "start", "launcher", "torchrun train.py"), entry(0, "exit", "launcher", "code 0")),
    job=Job(argv=("torchrun", "train.py"), pid=70, status="exit 0"),
)

EXITED_1 = report(
    Incident(
        cause="exited",
        strength="proved",
        at=AT,
        headline="The job exited with status 1; nothing was killed",
        summary="The first process to fail was rank 0 (pid 71, python), with status 1, at 14:02:31.118 UTC.",
        victim=Process(pid=71, comm="python", role="rank", rank=0),
        exit_code=1,
    ),
    timeline=(
        entry(-12 * NS_PER_S, "start", "launcher", "torchrun train.py"),
        entry(0, "exit", "rank 0", "code 1", primary=True),
        entry(150 * NS_PER_MS, "exit", "launcher", "code 1", collateral=True),
    ),
    job=Job(argv=("torchrun", "train.py"), pid=70, status="exit 1"),
)

INCONCLUSIVE = report(
    Incident(
        cause="inconclusive",
        strength="possible",
        headline="What ended the job was not observed",
        summary="The recording ends while the job was running; up to there nothing was killed.",
        proof=links(*["? The recording has no end."] * 4),
    ),
    timeline=(
        Entry(at_ns=AT_NS, offset_ns=None, kind="start", who="launcher", text="torchrun train.py"),
        Entry(at_ns=AT_NS + 4 * NS_PER_S, offset_ns=None, kind="note", who="tracer", text="sampled for the last time"),
    ),
    job=Job(argv=("torchrun", "train.py"), pid=70),
    caveats=("The recording has no end: the tracer was stopped or died before it was done.",),
    recording=None,
)
