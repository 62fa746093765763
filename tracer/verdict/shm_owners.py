# SPDX-License-Identifier: Apache-2.0
"""Whose the files in /dev/shm were, by the last look at all descriptors: who made them, and who had them open.

A batch that only its worker has open waits in a queue; what another process has open as well was taken. A file with a
name that nobody of the job has open is another's, where it was there before the job or where a process made it that is
none of the job's.
"""

from collections.abc import Iterable

import msgspec

from tracer.attribution.tree import Member
from tracer.events import ProcessId, ShmFiles, ShmFilesSample
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict.people import ns_pids, short
from tracer.verdict.story import Story

OLDEST_NS = 30 * NS_PER_S
BEGIN_NS = 3 * NS_PER_S
"""What nobody has open at a look so soon was there before the job. There is none where there was little."""
WORKER = "dataloader_worker"


class Owners(msgspec.Struct, frozen=True, kw_only=True):
    """At one look. The sizes do not overlap."""

    ago_ns: int
    """Before the kill: after it the victim has nothing open."""
    complete: bool
    waiting_bytes: int = 0
    """Open in the DataLoader workers that made them, and nowhere else."""
    waiting_files: int = 0
    taken_bytes: int = 0
    """Open in a process that is no worker, without a name."""
    taken_files: int = 0
    taken_by: str | None = None
    """Who has most of that."""
    worker_made: bool = False
    """Most of what is taken was made by DataLoader workers."""
    makers: int = 0
    """DataLoader workers that made what waits or is taken."""
    named_bytes: int = 0
    """Files with a name that are no batches, open or not."""
    named_files: int = 0
    left_bytes: int = 0
    """PyTorch's files with a name that a process of the job made, and that nobody of the job has open."""
    left_files: int = 0
    others_bytes: int = 0
    """All else: open in workers that did not make it, in several, or more than is listed."""

    @property
    def total_bytes(self) -> int:
        return self.waiting_bytes + self.taken_bytes + self.named_bytes + self.left_bytes + self.others_bytes

    @property
    def when(self) -> str:
        return f"{format_duration(self.ago_ns)} before the kill"

    def most(self, size_bytes: int, share: float) -> bool:
        """Whether it is so much of all that was there."""
        return size_bytes > 0 and size_bytes >= share * self.total_bytes

    @property
    def words(self) -> str | None:
        """Who has most of it."""
        parts = (
            (self.waiting_bytes, f"waited in {self.makers} DataLoader worker{'s' * (self.makers != 1)}"),
            (self.taken_bytes, f"was open in {self.taken_by}"),
            (self.named_bytes, "was files with names in /dev/shm"),
            (self.left_bytes, "was left in /dev/shm, open in nobody"),
        )
        size, text = max(parts, key=lambda one: one[0])
        return f"{format_bytes(size)} of {format_bytes(self.total_bytes)} {text}" if self.most(size, 0.5) else None


def owners(story: Story, at_ns: int) -> Owners | None:
    """By the last look; `None`: nobody looked, or too long ago."""
    every = story.of(ShmFilesSample)
    looks = [s for s in every if at_ns - OLDEST_NS <= s.ts_ns <= at_ns]
    if not looks:
        return None
    look, begin_ns = looks[-1], (story.job.ts_ns if story.job is not None else 0) + BEGIN_NS
    earlier = {_key(group): group for group in every[0].groups if every[0].ts_ns <= begin_ns and not group.holders}
    counts = dict.fromkeys(("waiting", "taken", "named", "left", "others"), 0)
    files = dict.fromkeys(counts, 0)
    takers: dict[ProcessId, int] = {}
    makers: set[ProcessId] = set()
    by_workers = 0
    for group in (_without(group, earlier.get(_key(group))) for group in look.groups):
        maker = _maker(story, group, look.ts_ns)
        holders = [m for tgid in group.holders if (m := story.tree.alive_at(tgid, look.ts_ns)) is not None]
        kind = _kind(story, group, maker, holders)
        if kind is None:
            continue
        counts[kind] += group.size_bytes
        files[kind] += group.files
        if kind in {"waiting", "taken"} and maker is not None and _is_worker(story, maker):
            makers.add(maker.id)
            by_workers += group.size_bytes if kind == "taken" else 0
        if kind == "taken":
            taker = next(one for one in holders if not _is_worker(story, one))
            takers[taker.id] = takers.get(taker.id, 0) + group.size_bytes
    top = max(takers, key=lambda one: takers[one], default=None)
    return Owners(
        ago_ns=at_ns - look.ts_ns,
        complete=look.complete,
        waiting_bytes=counts["waiting"],
        waiting_files=files["waiting"],
        taken_bytes=counts["taken"],
        taken_files=files["taken"],
        taken_by=short(story, top) if top is not None else None,
        worker_made=2 * by_workers > counts["taken"],
        makers=len(makers),
        named_bytes=counts["named"],
        named_files=files["named"],
        left_bytes=counts["left"],
        left_files=files["left"],
        others_bytes=counts["others"] + look.others_bytes,
    )


def grown_words(story: Story, at_ns: int) -> str | None:
    """Who has it, for a sentence about shared memory that grew."""
    found = owners(story, at_ns)
    if found is None or found.words is None:
        return None
    return f"{found.when}, {found.words}"


def _key(group: ShmFiles) -> tuple[object, ...]:
    return group.kind, group.creator, group.named, group.holders


def _without(group: ShmFiles, earlier: ShmFiles | None) -> ShmFiles:
    if earlier is None:
        return group
    files, size_bytes = group.files - earlier.files, group.size_bytes - earlier.size_bytes
    return msgspec.structs.replace(group, files=max(0, files), size_bytes=max(0, size_bytes))


def _kind(story: Story, group: ShmFiles, maker: Member | None, holders: Iterable[Member]) -> str | None:
    """`None`: another's."""
    others = [one for one in holders if not _is_worker(story, one)]
    workers = [one for one in holders if _is_worker(story, one)]
    if group.kind != "torch" and group.named:
        return "named"
    if not group.holders:
        return "left" if maker is not None else None
    if others:
        return "taken"
    mine = maker is not None and len(workers) == 1 and not group.more_holders and workers[0].id == maker.id
    return "waiting" if mine else "others"


def _maker(story: Story, group: ShmFiles, at_ns: int) -> Member | None:
    """The pid in a name is what the process calls itself; of several that had it the last one."""
    if group.creator is None:
        return None
    pid = group.creator
    found = [
        member
        for member in story.tree.members.values()
        if ((ns_pids(story, member.id) or (member.id.tgid,))[-1] == pid) and (member.began_ns or 0) <= at_ns
    ]
    return max(found, key=lambda one: one.began_ns or 0, default=None)


def _is_worker(story: Story, member: Member) -> bool:
    role = story.roles.get(member.id)
    return role is not None and role.name == WORKER
