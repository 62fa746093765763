# SPDX-License-Identifier: Apache-2.0
"""The facts of one recording, gathered once: order, tree, roles, clocks, what watched and was lost. No conclusions."""

import bisect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar, cast

from tracer.attribution.roles import Role, assign
from tracer.attribution.tree import Member, Tree
from tracer.events import (
    AnyEvent,
    Armed,
    Attached,
    CgroupSample,
    Clock,
    CudaProbed,
    Disarmed,
    Event,
    GpuStatus,
    Header,
    HookStatus,
    JobStarted,
    LogEvent,
    Losses,
    Note,
    OomLevel,
    ProcessId,
    ProcessSample,
    ProcessSeen,
    SignalSent,
    TracerPlaced,
    process_id,
)
from tracer.units import NS_PER_S, format_utc

EventT = TypeVar("EventT", bound=Event)

LOSS_WINDOW_BEFORE_NS = 10 * NS_PER_S
LOSS_WINDOW_AFTER_NS = 1 * NS_PER_S
KILL_HOOKS = ("mark_victim", "signal_generate", "sched_process_exit")
"""Without one of these the kernel's decision was not watched in full."""
SCALAR_SUFFIX = "/scalars"
"""As `kernel.probes` names hooks whose programs may not read the kernel's memory."""


class Story:
    """Events in time order, each once, with what can be looked up in them.

    Args:
        events: of one recording, in any order; duplicates (same `seq`) are dropped.
        left_out: how many of its samples are not among them on purpose.
    """

    def __init__(self, events: Iterable[AnyEvent], *, left_out: int = 0) -> None:
        unique: dict[int, AnyEvent] = {}
        for event in events:
            unique.setdefault(event.seq, event)
        self.events: Sequence[AnyEvent] = sorted(unique.values(), key=lambda e: (e.ts_ns, e.seq))
        self.left_out = left_out
        self.missing_events = (max(unique) + 1 - len(unique) - left_out) if unique else 0
        self.tree = Tree.of(self.events)
        self._by_kind: dict[type[Event], Sequence[Event]] = {}
        self._indexes: dict[tuple[type[Event], str], Mapping[Hashable, list[Event]]] = {}

    def by(self, kind: type[EventT], key: Callable[[EventT], Hashable], name: str) -> Mapping[Hashable, list[EventT]]:
        """All events of one class under a key, in time order; made once for each `name`."""
        if (kind, name) not in self._indexes:
            index: dict[Hashable, list[Event]] = {}
            for event in self.of(kind):
                index.setdefault(key(event), []).append(event)
            self._indexes[kind, name] = index
        return cast("Mapping[Hashable, list[EventT]]", self._indexes[kind, name])

    @cached_property
    def signals(self) -> Mapping[Hashable, list[SignalSent]]:
        """By the process that they went to."""
        return self.by(SignalSent, lambda s: process_id(s.tgid, s.start_ns), "target")

    def of(self, kind: type[EventT]) -> Sequence[EventT]:
        """All events of one class or its subclasses, in time order."""
        if kind not in self._by_kind:
            self._by_kind[kind] = [e for e in self.events if isinstance(e, kind)]
        return cast("Sequence[EventT]", self._by_kind[kind])

    @cached_property
    def roles(self) -> dict[ProcessId, Role]:
        """A role for every member of the tree."""
        lost = any(e.dropped.get("process_forked") or e.untracked or e.unknown or e.short for e in self.of(Losses))
        found_whole = all(attached.complete for attached in self.of(Attached))
        return dict(assign(self.tree, forks_complete=found_whole and not lost and not self.missing_events))

    @cached_property
    def ranks(self) -> int:
        """How many ranks the job has here."""
        return sum(1 for role in self.roles.values() if role.name == "rank")

    @cached_property
    def header(self) -> Header | None:
        return next(iter(self.of(Header)), None)

    @cached_property
    def job(self) -> JobStarted | None:
        return self.tree.root_event

    @property
    def command(self) -> tuple[str, ...] | None:
        """What the job was started as; of one that ran already, what its first process was seen to be."""
        if self.job is None or self.job.argv is not None or self.tree.root is None:
            return None if self.job is None else self.job.argv
        root = self.tree.processes.get(self.tree.root)
        seen = next((s.cmdline for s in root.seen if s.cmdline is not None), None) if root is not None else None
        # Who gave itself a title leaves empty arguments behind it.
        used = [place for place, argument in enumerate(seen or (), 1) if argument]
        return None if seen is None else seen[: max(used, default=0)]

    def began_at(self, started: JobStarted) -> str | None:
        """Wall time of a job's beginning; of one that ran already that of its first process."""
        if not started.attached or self.header is None:
            return self.utc(started.ts_ns)
        return self.utc(started.start_ns - self.header.boottime_ns + self.header.ts_ns)

    @cached_property
    def hooks(self) -> dict[str, HookStatus]:
        """By the last part of the name: `mark_victim`, `kmsg`."""
        return {h.hook.rpartition(":")[2]: h for h in self.of(HookStatus)}

    def hook_names(self, *hooks: str) -> tuple[str, ...]:
        """In full, of those that were attached."""
        return tuple(self.hooks[h].hook for h in hooks if h in self.hooks and self.hooks[h].attached)

    @cached_property
    def glimpsed(self) -> bool:
        """Whether OOM kills were watched, but without reading the kernel's memory."""
        return bool(self.hook_names(f"mark_victim{SCALAR_SUFFIX}"))

    def watched(self, *hooks: str) -> bool:
        """Whether the tracer was armed with all of these, and its pids are the kernel's."""
        attached = all(h in self.hooks and self.hooks[h].attached for h in hooks)
        return bool(self.of(Armed)) and attached and not self.pids_differ

    @cached_property
    def placed(self) -> TracerPlaced | None:
        """Where the kernel's own record of the job's first process was compared with what is known of that one."""
        return next(iter(self.of(TracerPlaced)), None)

    @property
    def pids_differ(self) -> bool:
        """Whether the tracer ran in a pid namespace of its own, and its pids here are other processes to the kernel.

        Once it was placed, all pids are the kernel's.
        """
        return self.header is not None and bool(self.header.own_pid_namespace) and self.placed is None

    @property
    def tracer_pid(self) -> int | None:
        """The kernel's pid of the tracer; `None`: not known."""
        if self.placed is not None:
            return self.placed.tgid
        return None if self.header is None or self.pids_differ else self.header.pid

    @property
    def tracer_level(self) -> int:
        """How deep the tracer's pid namespace lies; 0 where that is not known."""
        return self.placed.job_ns_level if self.placed is not None else 0

    @cached_property
    def follows_job(self) -> bool:
        """Whether the kernel's tree filter had the job's first process: its hooks then speak of this job.

        In a pid or time namespace of its own the tracer's idea of that process is none that the kernel has, unless
        the two were compared. Where that was not recorded, the filter must be seen to have had the process.
        Of a tree that ran already any process will do: what counts is that /proc and the kernel know it as one.
        """
        if self.placed is not None:
            return self.tree.root == process_id(self.placed.job_tgid, self.placed.job_start_ns)
        if self.job is not None and self.job.attached:
            return any(map(self._is_the_kernels, self.tree.members.values()))
        root = self.tree.processes.get(self.tree.root) if self.tree.root else None
        return root is not None and root.claimed

    def _is_the_kernels(self, member: Member) -> bool:
        """Whether a process that /proc had shown was in the tree filter, by a record about it or about its child."""
        if member.id not in self.tree.roots and not any(seen.source == "proc" for seen in member.seen):
            return False
        forks = (self.tree.processes[child].fork for child in member.children)
        return member.claimed or any(fork is not None and fork.in_tree for fork in forks)

    def watched_since_attach(self, *hooks: str) -> bool:
        """Whether a job that ran already was watched whole from then on to the end."""
        attached = self.of(Attached)
        whole = bool(attached) and all(one.complete for one in attached)
        return whole and self.watched(*hooks) and self.follows_job and bool(self.of(Disarmed))

    def watched_from_start(self, *hooks: str) -> bool:
        """Whether it was so before the job began, and to the end."""
        armed = self.of(Armed)
        began_before = bool(armed and self.job and not self.job.attached and armed[0].ts_ns <= self.job.ts_ns)
        return self.watched(*hooks) and began_before and self.follows_job and bool(self.of(Disarmed))

    def utc(self, ts_ns: int) -> str | None:
        """Wall time of a monotonic time, by the newest clock reading before it."""
        if not self._clock_readings:
            return None
        place = bisect.bisect_right(self._clock_readings, ts_ns, key=lambda r: r.ts_ns)
        reading = self._clock_readings[max(place - 1, 0)]
        return format_utc(reading.realtime_ns + ts_ns - reading.ts_ns)

    @cached_property
    def _clock_readings(self) -> Sequence[Clock | Header]:
        return [e for e in self.events if isinstance(e, Clock | Header)]

    def doubts(self, from_ns: int, to_ns: int) -> tuple[str, ...]:
        """Why something may be missing around this span: an empty tuple allows a proof."""
        found = []
        first, last = from_ns - LOSS_WINDOW_BEFORE_NS, to_ns + LOSS_WINDOW_AFTER_NS
        before: Losses | None = None
        confirmed, lost = False, 0
        for now in self.of(Losses):
            since = before.ts_ns if before else 0
            moved = now.total - (before.total if before else 0)
            if moved > 0 and since <= last and now.ts_ns >= first:
                lost += moved
            confirmed = confirmed or now.ts_ns >= to_ns
            before = now
        if lost:
            found.append(f"{lost} kernel records were lost near it")
        if not confirmed:
            found.append("the recording ends before it could say whether records were lost")
        if self.missing_events:
            count = f"{self.missing_events} events are" if self.missing_events > 1 else "1 event is"
            found.append(f"{count} missing from the recording")
        return tuple(found)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What holds for the whole recording."""
        found = []
        if not self.of(Armed):
            bpf = self.hooks.get("bpf")
            why = f" ({bpf.why_not})" if bpf is not None and bpf.why_not else ""
            told = (
                f"The kernel's memory could not be read{why}: of its OOM kills the bare calls were watched, and whom "
                "they hit is known by pid alone, so there is no proof."
            )
            bare = f"The kernel was not watched{why}: there is no proof of what it did."
            found.append(told if self.glimpsed else bare)
        elif not self.of(Disarmed):
            found.append("The recording has no end: the tracer was stopped or died before it was done.")
        found += [
            f"Not watched: {h.hook}{f' ({h.why_not})' if h.why_not else ''}."
            for name, h in self.hooks.items()
            if not h.attached and name in (*KILL_HOOKS, "sched_process_fork", "kmsg", "kallsyms")
        ]
        if self.pids_differ:
            found.append(
                "oomtrace ran in a pid namespace of its own and could not learn the kernel's pids: "
                "what the kernel says of processes could not be told to be of this job."
            )
        last = next(reversed(self.of(Losses)), None)
        if last is not None and last.total:
            found.append(f"Lost in all: {_loss_text(last)}.")
        if last is not None and last.log_gaps:
            found.append(f"{last.log_gaps} records of the kernel log were overwritten before they could be read.")
        watched = bool(self.of(Armed)) and bool(self.of(Disarmed))
        # Of a job that ran already, and goes on as it did, the kernel has nothing to tell.
        quiet = self.job is not None and self.job.attached and all(m.gone is None for m in self.tree.members.values())
        unsure = watched and self.tree.root is not None and not self.follows_job
        if unsure and not quiet and not self.pids_differ:
            found.append("The kernel's records could not be told to be of this job: is there a pid or time namespace?")
        untrusted = sum(1 for e in self.of(LogEvent) if not e.trusted and e.source != "printk_console")
        if untrusted:
            found.append(f"{untrusted} log records may be forged and were not counted as evidence.")
        found += [e.text for e in self.of(Note)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def watched_by(self) -> tuple[str, ...]:
        """What watched, in words, strongest first."""
        found = []
        if self.of(Armed):
            hooks = [h.hook for h in self.hooks.values() if h.attached]
            kinds = {hook.rpartition(":")[0].replace("_", " ") for hook in hooks}
            named = (f"{kind} hooks" if kind == "fentry" else f"{kind}s" for kind in sorted(kinds - {""}, reverse=True))
            # A ring buffer is what is meant where nothing is said.
            by = "; perf buffers" if self.of(Armed)[0].transport == "perf_buffer" else ""
            found.append(f"BPF ({', '.join(named)}{by})")
        elif self.glimpsed:
            found.append("BPF (raw tracepoints, without the kernel's memory)")
        if any(probed.symbols for probed in self.of(CudaProbed)):
            found.append("libcuda (uprobes)")
        if self.hook_names("console"):
            found.append("printk (console tracepoint)")
        if "kmsg" in self.hooks and self.hooks["kmsg"].attached:
            found.append("kernel log")
        if any(sample.usage_bytes is not None for sample in self.of(CgroupSample)):
            version = self.header.cgroup_version if self.header is not None else None
            found.append(f"cgroup v{version} files" if version is not None else "cgroup files")
        if any(status.available for status in self.of(GpuStatus)):
            found.append("NVML")
        if bool(self.of(ProcessSample)) or bool(self.of(ProcessSeen)):
            found.append("/proc")
        return tuple(found)

    def is_ours(self, tgid: int, start_ns: int) -> bool:
        """Whether the process is of the job: by recorded forks, or by the kernel's tree filter.

        Args:
            tgid: as the kernel says it.
        """
        if self.pids_differ:  # a process of the job with this pid is another one
            return False
        member = self.member(tgid, start_ns)
        return member is not None and (member.id in self.tree.members or member.claimed)

    def may_be_ours(self, levels: Sequence[OomLevel], at_ns: int | None = None) -> bool:
        """Whether a kill that is not known to be of the job may be: in its own cgroup, or pids cannot be compared.

        Or before a tree that ran already was found.
        """
        attached = self.of(Attached)
        if not self.follows_job or (self.job is not None and self.job.attached and not attached):
            return True
        own = {one.cgroup_id for one in attached if one.cgroup is not None}
        if self.job is not None and self.job.own_cgroup:
            own.add(self.job.cgroup_id)
        early = bool(attached) and at_ns is not None and at_ns < attached[0].ts_ns
        return early or any(level.cgroup_id in own for level in levels)

    def member(self, tgid: int, start_ns: int) -> Member | None:
        """Everything known of the process."""
        return self.tree.processes.get(process_id(tgid, start_ns))


def _loss_text(losses: Losses) -> str:
    parts = [f"{count} {kind}" for kind, count in sorted(losses.dropped.items()) if count]
    parts += [f"{n} {what}" for n, what in ((losses.short, "short"), (losses.unknown, "of unknown kind")) if n]
    if losses.untracked:
        parts.append(f"{losses.untracked} processes that did not fit into the tree filter")
    return ", ".join(parts)
