# SPDX-License-Identifier: Apache-2.0
"""What a conclusion is made of: the public verdict document, and the story that views lay out.

The document (`Verdict`) is a versioned contract: fields may be added, never renamed or given another
meaning. Unknown is `None`. Views compute nothing: what they show stands in a `Report`.
"""

from typing import Literal

import msgspec

from tracer.attribution.places import Place
from tracer.verdict.confirm.model import Checklist
from tracer.verdict.cuda.model import CudaFacts
from tracer.verdict.mechanisms.model import Picture
from tracer.verdict.projected import Projection

VERDICT_SCHEMA = "oomtrace.verdict/1"

Cause = Literal[
    "host_oom_global",
    "host_oom_cgroup",
    "host_oom_cpuset",
    "host_oom_mempolicy",
    "host_oom_unknown_scope",
    "operator_oom",
    "userspace_oom_daemon",
    "sigkill",
    "sigterm",
    "kernel_sigkill_other",
    "shm_exhausted",
    "pinned_host_memory",
    "host_allocation_failed",
    "memory_stall",
    "cuda_oom",
    "crash",
    "exited",
    "inconclusive",
]
Strength = Literal["proved", "likely", "possible"]
"""proved: links 1 to 4 present and nothing lost in the window; likely: one not observed; possible: hints."""
Status = Literal["present", "absent", "not_observed"]
Rung = Literal["bpf", "bpf_scalars", "printk_console", "kernel_log", "cgroup_counters", "nvml", "proc", "wait_status"]
"""What a statement rests on, strongest first: programs in the kernel; such as may read none of its memory; what it was
seen to print, and its own log; counts of a memory cgroup (or the machine); NVIDIA's management library; /proc; what
`waitpid` told."""
Role = Literal[
    "launcher",
    "rank",
    "dataloader_worker",
    "auxiliary",
    "forkserver",
    "resource_tracker",
    "shm_manager",
    "helper",
    "job",
    "outside",
]
SenderKind = Literal["kernel", "daemon", "launcher", "self", "job", "outside"]
"""daemon: a program whose trade is to end others (`Sender.trade`); launcher: an ancestor within the tree; job: another
process of the tree; self: the very process that died."""
Trade = Literal["oom_daemon", "container_runtime", "batch_system", "cluster_scheduler", "service_manager"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """Base: immutable, keyword only."""


class Process(Struct, frozen=True, kw_only=True):
    """A process as a reader needs it; memory is that at its death, else of the last sample."""

    pid: int
    start_ns: int | None = None
    ns_pids: tuple[int, ...] | None = None
    """Its pids from `pid` inwards, the last being the one that it sees itself; levels that nobody saw are left out."""
    comm: str | None = None
    role: Role | None = None
    role_known_by: str | None = None
    rank: int | None = None
    worker: int | None = None
    """Its number within one loader start, by fork order."""
    local_rank: int | None = None
    """Of it or of the rank above it, as `rank`."""
    node_rank: int | None = None
    world_size: int | None = None
    restart: int | None = None
    """Of a rank under torch elastic: which attempt, from 0."""
    launcher: str | None = None
    """Of a launcher: which, `torch_elastic`, `mpi`, ..."""
    service: str | None = None
    """Of an auxiliary process: what it is, in words."""
    hosts: tuple[str, ...] = ()
    """What runs in threads of it: `pin_memory_thread`, `dataloader_threads`."""
    rss_anon_bytes: int | None = None
    rss_file_bytes: int | None = None
    rss_shmem_bytes: int | None = None
    swap_bytes: int | None = None
    cgroup: str | None = None
    place: Place | None = None
    """What `cgroup` says of where it ran: container, pod, batch job, unit, session."""


class Level(Struct, frozen=True, kw_only=True):
    """One memory cgroup of a chain, at the kill."""

    cgroup: str
    usage_bytes: int | None = None
    limit_bytes: int | None = None
    """`None`: unknown, or no limit (`limited` tells)."""
    limited: bool | None = None
    swap_usage_bytes: int | None = None
    swap_limit_bytes: int | None = None
    """v2 only: v1 limits memory and swap together, see `memsw_limit_bytes`."""
    memsw_usage_bytes: int | None = None
    """v1: memory and swap together, where that has a limit."""
    memsw_limit_bytes: int | None = None
    oom_events: int | None = None
    """Local OOM events at this very cgroup so far."""
    owner: bool = False
    """Its limit is the one that was hit (or may be, where several cannot be told apart)."""
    place: Place | None = None
    """`place.itself` says whose limit this is, where the cgroup is that of a container, a pod, a job, a session."""


class Limit(Struct, frozen=True, kw_only=True):
    """What ran out."""

    constraint: str | None = None
    """`CONSTRAINT_MEMCG`, ... as the kernel spells it."""
    constraint_by: str | None = None
    """The hook that told: `fentry:oom_kill_process`, `kernel_stack`, `raw_tracepoint:console`, `kmsg`, ..."""
    cgroup: str | None = None
    cgroups: tuple[str, ...] = ()
    """All candidates, where several levels cannot be told apart; `cgroup` is then the lowest."""
    cgroup_by: tuple[str, ...] = ()
    """What told whose limit it was, likewise; `raw_tracepoint:mark_victim`: usage, limits and counts at the mark."""
    usage_bytes: int | None = None
    limit_bytes: int | None = None
    chain: tuple[Level, ...] = ()
    """From the victim's own cgroup up to the root."""
    mem_available_bytes: int | None = None
    swap_free_bytes: int | None = None
    swap_total_bytes: int | None = None
    place: Place | None = None
    """Of `cgroup`, where that is the only candidate."""


class Ancestor(Struct, frozen=True, kw_only=True):
    """A process above another."""

    pid: int
    comm: str


class Sender(Struct, frozen=True, kw_only=True):
    """Who sent the signal. The process that merely triggered an OOM is never one."""

    pid: int | None
    comm: str | None
    kind: SenderKind
    uid: int | None = None
    parent_comm: str | None = None
    program: str | None = None
    """Which program it is, where that is one of those that end others by trade: `earlyoom`."""
    trade: Trade | None = None
    known_by: str | None = None
    """How that is known: `its program /usr/bin/earlyoom`, `its name alone`."""
    exe: str | None = None
    cgroup: str | None = None
    """Of its memory cgroup."""
    ancestors: tuple[Ancestor, ...] = ()
    """Its parent first, as far as they were seen."""
    place: Place | None = None
    ns_pids: tuple[int, ...] | None = None
    """As `Process.ns_pids`."""


class Culprit(Struct, frozen=True, kw_only=True):
    """Whose unreclaimable memory grew."""

    pid: int
    why: str
    who: str | None = None
    """`DataLoader worker 2 of rank 0 (pid 41233)`."""
    start_ns: int | None = None
    ns_pids: tuple[int, ...] | None = None


class Link(Struct, frozen=True, kw_only=True):
    """One link of the proof."""

    link: int
    name: str
    status: Status
    statement: str
    evidence: tuple[int, ...] = ()
    """`seq` of events in the recording."""
    rung: Rung | None = None
    """What the statement rests on; of several the strongest. `None`: nothing was observed."""
    via: tuple[str, ...] = ()
    """The hooks of that rung that told of it: `raw_tracepoint:mark_victim`, `kernel_stack`, `kprobe:oom_kill_process`;
    with `(pid)` a mark that gives a thread's pid alone. Empty where the rung says it all."""


class Mechanism(Struct, frozen=True, kw_only=True):
    """Why memory grew."""

    name: str
    or_: tuple[str, ...] = msgspec.field(name="or", default=())
    strength: Strength
    statement: str
    evidence: tuple[int, ...] = ()
    because: tuple[str, ...] = ()
    """What speaks for it, in words."""
    against: tuple[str, ...] = ()
    """What speaks against it, or could not be seen."""
    decide: tuple[str, ...] = ()
    """What to look at to tell it from what stands in `or`."""


class Remedy(Struct, frozen=True, kw_only=True):
    """What to change, and how to see that it helped."""

    do: str
    why: str | None = None
    """Why that works."""
    costs: str | None = None
    """What it takes in exchange."""
    verify: str | None = None


class Collateral(Struct, frozen=True, kw_only=True):
    """A process that went down because of the incident."""

    pid: int
    how: str
    start_ns: int | None = None
    who: str | None = None
    """`rank 0`."""
    ns_pids: tuple[int, ...] | None = None


class Incident(Struct, frozen=True, kw_only=True):
    """One thing that went wrong (or, for `exited`, did not)."""

    cause: Cause
    strength: Strength
    at: str | None = None
    """UTC, RFC 3339 with microseconds."""
    headline: str = ""
    """One line: what happened."""
    summary: str = ""
    """One sentence with who, when, where and how much."""
    victim: Process | None = None
    victims: tuple[Process, ...] = ()
    trigger: Process | None = None
    culprit: Culprit | None = None
    growth: str | None = None
    """Who grew, where no single process stands out."""
    limit: Limit | None = None
    sender: Sender | None = None
    signal: int | None = None
    exit_code: int | None = None
    as_asked: bool = False
    """`run --until` or `--for`: oomtrace itself ended the job, and that is no failure."""
    proof: tuple[Link, ...] = ()
    mechanism: Mechanism | None = None
    picture: Picture | None = None
    """Who held what at the kill, a table that adds up to the limit. `None`: the limit was not looked at."""
    remedies: tuple[Remedy, ...] = ()
    collateral: tuple[Collateral, ...] = ()
    caveats: tuple[str, ...] = ()
    cuda: CudaFacts | None = None
    """Whose calls were watched, what was refused and held; `None`: nothing of that was looked for."""


class Job(Struct, frozen=True, kw_only=True):
    """The job as a whole."""

    argv: tuple[str, ...] | None = None
    pid: int | None = None
    cgroup: str | None = None
    started_at: str | None = None
    attached_at: str | None = None
    """Since when it was watched, of a job that ran already."""
    ended_at: str | None = None
    status: str | None = None
    """`exit 1`, `signal 9`, `running`; `None`: not observed."""


Whose = Literal["job", "above", "machine"]
"""job: the memory cgroup that it began in; above: one that this lies in."""


class Counter(Struct, frozen=True, kw_only=True):
    """What one counter of OOM kills said over the watch, and what was seen of it."""

    whose: Whose
    file: str
    """`/proc/vmstat`, `memory.events` (v2, with all below), `memory.oom_control` (v1, this cgroup alone)."""
    cgroup: str | None = None
    counted: int
    """By how much it rose."""
    seen: int
    """Kills that it counts and that were seen."""
    counted_again: int = 0
    """Further counts that were seen to be no further kills: of a group's first victim, or of one that was dying."""
    maybe: int = 0
    """Seen, and it cannot be told whether this counter counts them: their cgroup is not known, or they came just
    when it was read."""
    maybe_again: int = 0
    """Kills that may have been counted twice without that being seen: of a group, where signals were lost."""
    lost: int = 0
    """Marks that were lost, and that explain a part of the difference."""
    unexplained: int = 0
    """What is left. Below 0: so many were seen that it did not count."""
    explained_by: tuple[str, ...] = ()
    """What explains the rest of the difference, in words."""
    not_counted: int = 0
    """Processes that died of a kill that was another's (they shared the victim's memory), and marks that were none."""
    evidence: tuple[int, ...] = ()
    """`seq` of the first and the last reading."""


class Reconciliation(Struct, frozen=True, kw_only=True):
    """The kernel's counters of OOM kills against the kills that were seen."""

    agree: bool
    """Nothing is left unexplained."""
    watched: bool
    """OOM marks of the whole machine were watched. Else the counters are witnesses of their own."""
    statement: str
    counters: tuple[Counter, ...]


class Verdict(Struct, frozen=True, kw_only=True):
    """The document that `--json` prints."""

    schema: str = VERDICT_SCHEMA
    primary: int
    """Index of the incident that started the failure."""
    incidents: tuple[Incident, ...]
    job: Job | None = None
    caveats: tuple[str, ...] = ()
    """What holds for the whole recording: losses, what was not watched."""
    watched_by: tuple[str, ...] = ()
    """What watched, strongest first: `BPF (raw tracepoints)`, `kernel log`, `cgroup v1 files`, `/proc`."""
    pids_of: Literal["host", "tracer"] = "host"
    """Whose pids these are: the kernel's, or, where those could not be learned, those of oomtrace's own namespace."""
    reconciliation: Reconciliation | None = None
    """`None`: no counter of OOM kills was read."""
    confirm: Checklist | None = None
    """`None`: it was no host OOM kill that started the failure."""
    projection: Projection | None = None
    """Where memory was going, of a job that was not killed for want of it. `None`: not looked for."""


EntryKind = Literal["start", "memory", "reclaim", "oom", "mark", "signal", "kill", "exit", "gone", "log", "gpu", "note"]


class Series(Struct, frozen=True, kw_only=True):
    """Memory over time, for a sparkline: evenly spaced, oldest first."""

    values_bytes: tuple[int | None, ...]
    first_ns: int
    last_ns: int


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the timeline."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    offset_ns: int | None
    """From the primary incident's moment; `None` where there is none."""
    kind: EntryKind
    who: str
    """`worker 2`, `rank 0`, `launcher`, `systemd-oomd (812)`."""
    text: str
    pid: int | None = None
    series: Series | None = None
    primary: bool = False
    """It is what the verdict rests on."""
    collateral: bool = False
    outside: bool = False
    """About a process that is not the job's."""
    evidence: tuple[int, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """All that a view needs."""

    verdict: Verdict
    timeline: tuple[Entry, ...]
    recording: str | None = None
    """Path of the recording, where there is one."""
