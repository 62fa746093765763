# SPDX-License-Identifier: Apache-2.0
"""When and how densely the job's memory is sampled. What is read comes from the sources; what changed is recorded."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tracer.events import CgroupSample, ProcessGone, ProcessSample, ReclaimSample
from tracer.pipeline.journal import Journal
from tracer.pipeline.members import GONE_AFTER_NS, Member, Members
from tracer.pipeline.ports import Sources
from tracer.units import NS_PER_MS, NS_PER_S, has_limit

SAMPLE_NS = NS_PER_S
WATCH_NS = 250 * NS_PER_MS
"""The usage of what has a limit is looked at (not recorded) so often, to see that come near."""
DENSE_NS = 100 * NS_PER_MS
STAY_DENSE_NS = 2 * NS_PER_S
NEAR_A_LIMIT = 0.9
COST_SHARE = 50
"""A round that cost T of CPU time is followed by a pause of at least 50 T: 2 % of one CPU, however large the job."""
MOST_MOVERS = 24
"""In a round between those of each second: with more of them there would be fewer rounds, of the cgroup as well."""
FAULTS = 256
"""So many more, 1 MiB, and nothing else new: a sample is written."""
LONGEST_PAUSE_NS = 5 * NS_PER_S
"""Short of memory a round reclaims at its own expense, and that is when samples are worth most."""


class SharedUsed(Protocol):
    """Whoever is told how much shared memory is in use, by who counts it."""

    def __call__(self, now_ns: int, used_bytes: dict[str, int], *, near: bool) -> None: ...


class Sampler:
    """Samples the job's processes, its cgroups and the machine."""

    def __init__(self, sources: Sources, journal: Journal, members: Members) -> None:
        self.longest_scan_ns = 0
        self.scans = 0
        self.sampled: Callable[[Member, ProcessSample], None] | None = None
        """Told of each sample of a process."""
        self.shared: SharedUsed | None = None
        """Told in each round how much shared memory is in use."""
        self._sources = sources
        self._journal = journal
        self._members = members
        self._chain: tuple[str, ...] = ()
        self._job_cgroup_id: int | None = None
        self._limits: dict[str, int] = {}
        """Of the chain, as they were when it was sampled last."""
        self._next_ns = 0
        self._last_round_ns = 0
        self._last_whole_ns = 0
        self._dense_until_ns = 0
        self._scans_proc = sources.kernel is None
        self._killed = 0

    def watch(self, path: str | None) -> None:
        """The job's memory cgroup: it and all above it are sampled."""
        if path is not None:
            cgroups = self._sources.cgroups
            self._chain = tuple(self._journal.attempt("the cgroup chain", lambda: cgroups.chain(path), otherwise=()))
            self._job_cgroup_id = self._journal.attempt("cgroup ids", lambda: cgroups.cgroup_id(path), otherwise=None)
        # What was counted before the job began is none of it; and what begins now may be over soon.
        now_ns = time.monotonic_ns()
        chain = self._sample_chain()
        self._killed_meanwhile(chain)
        self._round(now_ns, chain)
        if self._scans_proc:
            self._dense_until_ns = now_ns + STAY_DENSE_NS
        self._last_round_ns = self._last_whole_ns = 0

    def due_ns(self) -> int:
        """When `tick` is to be called next."""
        return self._next_ns

    def tick(self, now_ns: int) -> list[Member]:
        """One round; the processes that it discovered."""
        began_ns = time.thread_time_ns()
        whole = now_ns - self._last_whole_ns >= SAMPLE_NS - NS_PER_MS
        looks = whole or now_ns < self._dense_until_ns or self._scans_proc or self._may_be_near()
        chain = self._sample_chain(whole=whole) if looks else []
        reclaim = self._sample_reclaim(now_ns)
        if reclaim or self._killed_meanwhile(chain) or any(map(near_its_limit, chain)):
            self._dense_until_ns = now_ns + STAY_DENSE_NS
        dense = now_ns < self._dense_until_ns
        found = self._discover()
        if dense or whole:
            self._round(now_ns, chain or self._sample_chain(whole=whole), whole=whole)
        # What it took of a CPU: on a busy machine a round lasts longer, and costs no more.
        took_ns = time.thread_time_ns() - began_ns
        pause_ns = max(DENSE_NS if dense else WATCH_NS, COST_SHARE * took_ns)
        self._next_ns = now_ns + min(pause_ns, LONGEST_PAUSE_NS)
        return found

    def at_mark(self, now_ns: int, *, ours: bool) -> None:
        """A process was marked by the OOM killer: what was used at that very moment is worth most.

        Args:
            ours: it is one of the job's. Kills elsewhere may come in storms, and must not make this costly.
        """
        if now_ns >= (self._last_round_ns + DENSE_NS // 2 if ours else self._next_ns):
            self._round(now_ns, self._sample_chain())
            self._dense_until_ns = now_ns + STAY_DENSE_NS

    def look_at(self, member: Member, now_ns: int) -> None:
        """One process by itself."""
        self._sample_process(member, now_ns)

    def lose(self, member: Member, now_ns: int) -> None:
        """It is gone, and nobody told how it ended."""
        self._members.drop(member.id)
        self._journal.forget(member.id)
        self._journal.append(ProcessGone(ts_ns=now_ns, source="proc", tgid=member.tgid, start_ns=member.start_ns))

    def finish(self, now_ns: int) -> None:
        """The last round. That a count was still the same at the end, and who still lived, is recorded as well."""
        self._sample_reclaim(now_ns)
        self._round(now_ns, self._sample_chain(), last=True)

    def _round(self, now_ns: int, chain: Sequence[CgroupSample], *, whole: bool = True, last: bool = False) -> None:
        """All that is sampled.

        A round that is not whole, between those of each second, leaves out what tells little more: processes whose
        memory is about what it was, and the machine where it is a cgroup that fills.
        """
        began_ns = time.monotonic_ns()
        self._last_round_ns = now_ns
        if whole:
            self._last_whole_ns = now_ns
        for sample in chain:
            if not self._journal.append_changed(("cgroup", sample.path), sample) and last:
                self._journal.append(sample)
        if whole or not any(map(near_its_limit, chain)):
            self._sample_machine(last=last)
        self._sample_shm(now_ns, chain)
        for member in self._members if whole else self._movers():
            self._sample_process(member, now_ns, last=last)
        self.scans += 1
        self.longest_scan_ns = max(self.longest_scan_ns, time.monotonic_ns() - began_ns)

    def _sample_machine(self, *, last: bool) -> None:
        host = self._sources.host
        pressure = self._journal.attempt("reading the machine's memory", host.pressure, otherwise=None)
        if pressure is not None:
            self._journal.append_changed(("pressure",), pressure)
        vmstat = self._journal.attempt("reading vmstat", host.vmstat, otherwise=None)
        if vmstat is not None and not self._journal.append_changed(("vmstat",), vmstat) and last:
            self._journal.append(vmstat)

    def _sample_shm(self, now_ns: int, chain: Sequence[CgroupSample]) -> None:
        """The room in /dev/shm as the oldest process of the job sees it, mostly its first one."""
        oldest, processes = next(iter(self._members), None), self._sources.processes
        if oldest is None:
            return
        shm = self._journal.attempt("reading /dev/shm", lambda: processes.shm(oldest.tgid), otherwise=None)
        used = {sample.path: sample.shmem_bytes for sample in chain[:1] if sample.shmem_bytes is not None}
        if shm is not None:
            self._journal.append_changed(("shm",), shm)
            if any(fill.free_bytes < (1 - NEAR_A_LIMIT) * fill.size_bytes for fill in shm.mounts):
                self._dense_until_ns = now_ns + STAY_DENSE_NS
            used |= {fill.mount_point: fill.size_bytes - fill.free_bytes for fill in shm.mounts}
        if self.shared is not None:
            self.shared(now_ns, used, near=now_ns < self._dense_until_ns)

    def _discover(self) -> list[Member]:
        if not self._scans_proc:
            return []
        processes = self._sources.processes
        return self._journal.attempt("scanning /proc", lambda: self._members.scan(processes.table()), otherwise=[])

    def _sample_process(self, member: Member, now_ns: int, *, last: bool = False) -> None:
        processes = self._sources.processes
        sample: ProcessSample | None = self._journal.attempt(
            "reading processes", lambda: processes.sample(member.tgid, member.start_ns), otherwise=None
        )
        if sample is not None:
            member.missing_since_ns = None
            like = msgspec.structs.replace(sample, ts_ns=0, minflt=(sample.minflt or 0) // FAULTS)
            if not self._journal.append_changed(("process", *member.id), sample, like) and last:
                self._journal.append(sample)
            if self.sampled is not None:
                self.sampled(member, sample)
        elif self._journal.gave_up("reading processes"):
            return
        elif self._members.missing(member, now_ns, patience_ns=0 if self._scans_proc else GONE_AFTER_NS):
            self.lose(member, now_ns)

    def _movers(self) -> list[Member]:
        """Whose memory is another than at its last sample, most first, and not more than can be read so often."""
        processes = self._sources.processes
        moved: list[tuple[int, Member]] = []
        for member in self._members:
            moved_by = functools.partial(processes.moved, member.tgid, member.start_ns)
            pages = self._journal.attempt("reading processes", moved_by, otherwise=1)
            if pages:
                moved.append((pages, member))
        moved.sort(key=lambda one: -one[0])
        return [member for _, member in moved[:MOST_MOVERS]]

    def _may_be_near(self) -> bool:
        """Whether one is as full as if it were: it may be page cache, which a sample tells."""
        cgroups = self._sources.cgroups
        for path, limit_bytes in self._limits.items():
            usage = self._journal.attempt("reading cgroups", lambda p=path: cgroups.usage(p), otherwise=None)  # type: ignore[misc]
            if usage is None or usage >= NEAR_A_LIMIT * limit_bytes:
                return True
        return False

    def _sample_chain(self, *, whole: bool = True) -> list[CgroupSample]:
        """The job's own and all above it; where it is not whole, of these only what has a limit."""
        cgroups = self._sources.cgroups
        samples: list[CgroupSample] = []
        whole = whole or self._scans_proc  # then the counts of kills of all are compared
        for path in self._chain if whole else [*self._chain[:1], *(p for p in self._chain[1:] if p in self._limits)]:
            sample = self._journal.attempt("reading cgroups", lambda p=path: cgroups.sample(p), otherwise=None)  # type: ignore[misc]
            if sample is not None:
                samples.append(sample)
                self._limits.pop(path, None)
                if (limit_bytes := limit_of(sample)) is not None:
                    self._limits[path] = limit_bytes
        return samples

    def _killed_meanwhile(self, chain: Sequence[CgroupSample]) -> bool:
        """Whether a count of OOM kills rose: without BPF a victim is there to be seen for moments only."""
        before, self._killed = self._killed, sum(sample.oom_kill or 0 for sample in chain)
        return self._scans_proc and self._killed > before

    def _sample_reclaim(self, now_ns: int) -> bool:
        """Whether the job itself had to reclaim."""
        kernel = self._sources.kernel
        if kernel is None:
            return False
        none: Sequence[ReclaimSample] = ()
        changed = self._journal.attempt("reading reclaim", lambda: kernel.reclaim(now_ns), otherwise=none)
        for sample in changed:
            self._journal.append(sample)
        return any(sample.cgroup_id == self._job_cgroup_id for sample in changed)


def near_its_limit(sample: CgroupSample) -> bool:
    """Whether what cannot be reclaimed comes near a limit. Page cache fills any limit, and means nothing."""
    limit_bytes = limit_of(sample)
    if limit_bytes is None or sample.usage_bytes is None:
        return False
    cache_bytes = max(0, (sample.file_bytes or 0) - (sample.shmem_bytes or 0))
    return sample.usage_bytes - cache_bytes >= NEAR_A_LIMIT * limit_bytes


def limit_of(sample: CgroupSample) -> int | None:
    """The lower one of its limits; `None`: it has none."""
    limits = [each for each in (sample.limit_bytes, sample.high_limit_bytes) if each is not None and has_limit(each)]
    return min(limits, default=None)
