# SPDX-License-Identifier: Apache-2.0
"""Processes in words and in the document: names, chains, memory at death, who sent a signal."""

from tracer.attribution import roles
from tracer.attribution.tree import Member
from tracer.events import OomMark, ProcessId, ProcessSample, SignalInfo, SignalSent, process_id
from tracer.units import NS_PER_S
from tracer.verdict.kills import KERNEL_INFO, PF_EXITING, Kill
from tracer.verdict.model import Process, Sender, SenderKind
from tracer.verdict.owner import is_whole
from tracer.verdict.story import Story

SENT_BY_CURRENT = frozenset({0, -1, -6})
"""SI_USER, SI_QUEUE, SI_TKILL (include/uapi/asm-generic/siginfo.h)."""
FAULT_SIGNALS = frozenset({4, 5, 6, 7, 8, 11, 31})
"""Raised by the kernel with a positive code for what a process did."""
PF_KTHREAD = 0x0020_0000
"""include/linux/sched.h; stable since 2.6.27."""


def describe(story: Story, identity: ProcessId) -> str:
    """`DataLoader worker 2 of rank 0 (pid 41233)`."""
    member = story.tree.processes.get(identity)
    name = roles.describe(story.roles.get(identity), member.comm if member else None)
    return f"{name} (pid {identity.tgid})"


def subject(story: Story, identity: ProcessId) -> str:
    """The same at the beginning of a sentence."""
    text = describe(story, identity)
    return text[0].upper() + text[1:]


def short(story: Story, identity: ProcessId) -> str:
    """`worker 2`, `r1 worker 2` where there are several ranks; a process without a training role with its pid."""
    member = story.tree.processes.get(identity)
    role = story.roles.get(identity)
    name = roles.short(role, member.comm if member else None)
    if role is not None and role.name == "dataloader_worker" and role.rank is not None and story.ranks > 1:
        name = f"r{role.rank} {name}"
    return (
        name
        if role is not None and role.name in {"launcher", "rank", "dataloader_worker"}
        else f"{name} {identity.tgid}"
    )


def lineage(story: Story, identity: ProcessId) -> str | None:
    """`launcher 41200 > rank 0 41210 > worker 2 41233`; `None` where it does not descend from the job."""
    chain = story.tree.chain(identity)
    if chain is None:
        return None
    names = [f"{roles.short(story.roles.get(m.id), m.comm)} {m.id.tgid}" for m in chain]
    return " > ".join(names if len(names) <= 6 else [*names[:2], "...", *names[-3:]])


def process(story: Story, identity: ProcessId, kill: Kill | None = None) -> Process:
    """The document's record of a process; memory as the kernel counted it at the mark, else as last sampled."""
    member = story.tree.processes.get(identity)
    role = story.roles.get(identity)
    mark = kill.mark if kill is not None else None
    return Process(
        pid=identity.tgid,
        start_ns=member.start_ns if member else None,
        ns_pids=_ns_pids(story, identity, mark),
        comm=mark.comm if mark is not None else member.comm if member else None,
        # The kernel's tree filter had it, whether or not its line of forks was recorded in full.
        role=role.name if role is not None else "job" if member is not None and member.claimed else "outside",
        role_known_by=role.known_by if role is not None else None,
        rank=role.rank if role is not None else None,
        worker=role.worker if role is not None else None,
        cgroup=_cgroup(story, identity, kill),
        **_memory(story, identity, kill),
    )


def trigger(story: Story, kill: Kill) -> Process | None:
    """The process that was allocating when memory ran out: neither the sender of anything nor the culprit."""
    mark = kill.mark
    if mark is None:
        return None
    identity = process_id(mark.trigger_tgid, mark.trigger_start_ns)
    if identity == kill.id:
        return process(story, identity, kill)
    if identity in story.tree.processes:
        return process(story, identity)
    return Process(pid=mark.trigger_tgid, start_ns=mark.trigger_start_ns, comm=mark.trigger_comm, role="outside")


def names_its_sender(signal: SignalSent) -> bool:
    """Whether `current` is who sent it: kill, sigqueue and tgkill run in the sender's own context.

    A timer's or a message queue's signal (SI_TIMER -2, ...) runs in whatever context its moment finds, and
    sigqueue lets a process claim any negative code: then the sender is unknown.
    """
    if signal.info == SignalInfo.NOINFO:
        return not is_parents_death(signal)
    return signal.info == SignalInfo.POINTER and signal.code in SENT_BY_CURRENT


def sender(story: Story, signal: SignalSent) -> Sender | None:
    """Who sent a signal; `None` where that cannot be known. A fault is raised by the kernel.

    A signal that oomtrace passed on comes from whoever sent it there, where that was seen.
    """
    signal = passed_on(story, signal) or signal
    fault = signal.code > 0 and signal.signal in FAULT_SIGNALS
    if signal.info in KERNEL_INFO or signal.sender_flags & PF_KTHREAD or fault or is_parents_death(signal):
        return Sender(pid=None, comm=None, kind="kernel")
    if not names_its_sender(signal):
        return None
    return Sender(
        pid=signal.sender_tgid,
        comm=signal.sender_comm,
        kind=_sender_kind(story, signal),
        uid=signal.sender_uid,
        # The parent of process 1 is the kernel's idle task (swapper/0), which started nobody.
        parent_comm=signal.sender_parent_comm if signal.sender_parent_tgid else None,
    )


def is_parents_death(signal: SignalSent) -> bool:
    """Whether it was to come when the parent ended (PR_SET_PDEATHSIG): the kernel sends it as the parent dies."""
    return signal.info == SignalInfo.NOINFO and bool(signal.sender_flags & PF_EXITING)


def passed_on(story: Story, signal: SignalSent) -> SignalSent | None:
    """What oomtrace had got just before it sent this; `None`: it is not from oomtrace, or that was not seen."""
    if not _from_tracer(story, signal):
        return None
    got = [
        s
        for s in story.of(SignalSent)
        if s.tgid == signal.sender_tgid and s.signal == signal.signal and 0 <= signal.ts_ns - s.ts_ns <= NS_PER_S
    ]
    return got[-1] if got else None


def _from_tracer(story: Story, signal: SignalSent) -> bool:
    # In a namespace of its own, where that is not known, its pid is another process's to the kernel.
    return names_its_sender(signal) and story.tracer_pid is not None and signal.sender_tgid == story.tracer_pid


def sender_id(signal: SignalSent) -> ProcessId:
    """The process in whose context the signal was sent."""
    return process_id(signal.sender_tgid, signal.sender_start_ns)


def sender_name(story: Story, signal: SignalSent) -> str:
    """For a headline: `itself`, `the kernel`, `'systemd-oomd' (pid 812)`, `an unknown sender`."""
    who = sender(story, signal)
    if who is None:
        return "an unknown sender"
    if who.kind == "kernel":
        return "the kernel"
    if who.kind == "self":
        return "itself"
    if _from_tracer(story, signal) and passed_on(story, signal) is None:
        return "oomtrace, which passed it on"
    role = story.roles.get(sender_id(signal))
    if who.kind in {"launcher", "job"} and role is not None:
        # By the name that it had when it sent: it may have begun another program since.
        return f"{roles.describe(role, signal.sender_comm)} (pid {who.pid})"
    return f"{who.comm!r} (pid {who.pid})"


def sender_text(story: Story, signal: SignalSent) -> str:
    """In full: `rank 0 (pid 41210), of the same job`, `'scancel' (pid 812, uid 0, started by 'bash'), from outside`."""
    who = sender(story, signal)
    if who is not None and who.kind in {"launcher", "job"}:
        return f"{sender_name(story, signal)}, of the same job"
    if who is None or who.kind != "outside" or (_from_tracer(story, signal) and passed_on(story, signal) is None):
        return sender_name(story, signal)
    by = f", started by {who.parent_comm!r}" if who.parent_comm else ""
    via = " through oomtrace" if _from_tracer(story, signal) else ""
    return f"{who.comm!r} (pid {who.pid}, uid {who.uid}{by}), from outside the job{via}"


def _sender_kind(story: Story, signal: SignalSent) -> SenderKind:
    source = sender_id(signal)
    target = process_id(signal.tgid, signal.start_ns)
    if source == target:
        return "self"
    if story.tree.is_ancestor(source, target):
        return "launcher"
    return "job" if source in story.tree.members else "outside"


def _ns_pids(story: Story, identity: ProcessId, mark: OomMark | None) -> tuple[int, ...] | None:
    member = story.tree.processes.get(identity)
    seen = next((s.ns_pids for s in reversed(member.seen) if s.ns_pids), None) if member else None
    if seen is not None:
        return seen
    fork = member.fork if member is not None else None
    last = mark if mark is not None else fork
    if last is None:
        return None
    if last.ns_level == 0:
        return (identity.tgid,)
    # Of the levels in between a fork tells that of the tracer, where that is one.
    between = fork.own_tgid if fork is not None and 0 < story.tracer_level < last.ns_level else None
    return (identity.tgid, *((between,) if between else ()), last.ns_tgid)


def _last_sample(member: Member) -> ProcessSample | None:
    """Of the program that it was in the end: what was sampled before an exec was another one's memory."""
    begun_ns = member.execs[-1].ts_ns if member.execs else 0
    # One that is dead holds nothing any more.
    last = next((sample for sample in reversed(member.samples) if sample.rss_anon_bytes is not None), None)
    return last if last is not None and last.ts_ns >= begun_ns else None


def _cgroup(story: Story, identity: ProcessId, kill: Kill | None) -> str | None:
    if kill is not None and is_whole(kill) and not any(level.name_cut for level in kill.levels):
        return "/" + "/".join(level.name for level in reversed(kill.levels[:-1]))
    member = story.tree.processes.get(identity)
    return next((s.cgroup for s in reversed(member.seen) if s.cgroup is not None), None) if member else None


def _memory(story: Story, identity: ProcessId, kill: Kill | None) -> dict[str, int | None]:
    member = story.tree.processes.get(identity)
    values: tuple[int | None, ...] = (None, None, None, None)
    if kill is not None and kill.mark is not None:
        at = kill.mark
        values = (at.anon_rss_bytes, at.file_rss_bytes, at.shmem_rss_bytes, at.swap_bytes)
    elif kill is not None and kill.logged is not None:
        values = (kill.logged.anon_rss_bytes, kill.logged.file_rss_bytes, kill.logged.shmem_rss_bytes, None)
    elif member is not None and (last := _last_sample(member)) is not None:
        values = (last.rss_anon_bytes, last.rss_file_bytes, last.rss_shmem_bytes, last.swap_bytes)
    return dict(zip(("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes", "swap_bytes"), values, strict=True))
