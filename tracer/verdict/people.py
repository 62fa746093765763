# SPDX-License-Identifier: Apache-2.0
"""Processes in words and in the document: names, chains, memory at death."""

from tracer.attribution import roles
from tracer.attribution.cgroup_paths import place_of
from tracer.attribution.tree import Member
from tracer.events import OomMark, ProcessId, ProcessSample, process_id
from tracer.verdict.kills import Kill
from tracer.verdict.model import Process
from tracer.verdict.owner import is_whole
from tracer.verdict.story import Story


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
    cgroup = _cgroup(story, identity, kill)
    return Process(
        pid=identity.tgid,
        start_ns=member.start_ns if member else None,
        ns_pids=ns_pids(story, identity, mark),
        comm=mark.comm if mark is not None else member.comm if member else None,
        # The kernel's tree filter had it, whether or not its line of forks was recorded in full.
        role=role.name if role is not None else "job" if member is not None and member.claimed else "outside",
        role_known_by=role.known_by if role is not None else None,
        rank=role.rank if role is not None else None,
        worker=role.worker if role is not None else None,
        local_rank=role.local_rank if role is not None else None,
        node_rank=role.node_rank if role is not None else None,
        world_size=role.world_size if role is not None else None,
        restart=role.restart if role is not None else None,
        launcher=role.launcher if role is not None else None,
        service=role.service if role is not None else None,
        hosts=role.hosts if role is not None else (),
        cgroup=cgroup,
        place=place_of(cgroup),
        **_memory(story, identity, kill),
    )


def trigger(story: Story, kill: Kill) -> Process | None:
    """The process that was allocating when memory ran out: neither the sender of anything nor the culprit."""
    mark, glimpse = kill.mark, kill.glimpse
    if glimpse is not None:
        known = kill.id if glimpse.itself else None
        found = story.tree.alive_at(glimpse.trigger_tgid, glimpse.ts_ns)
        known = known or (found.id if found is not None else None)
        bare = Process(pid=glimpse.trigger_tgid, comm=glimpse.trigger_comm)
        return bare if known is None else process(story, known, kill if known == kill.id else None)
    if mark is None:
        return None
    identity = process_id(mark.trigger_tgid, mark.trigger_start_ns)
    if identity == kill.id:
        return process(story, identity, kill)
    if identity in story.tree.processes:
        return process(story, identity)
    return Process(pid=mark.trigger_tgid, start_ns=mark.trigger_start_ns, comm=mark.trigger_comm, role="outside")


def ns_pids(story: Story, identity: ProcessId, mark: OomMark | None = None) -> tuple[int, ...] | None:
    """Its pids from the one of `identity` inwards, as far as known; the last is the one that it sees itself."""
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
    seen = next((s.cgroup for s in reversed(member.seen) if s.cgroup is not None), None) if member else None
    logged = kill.logged_decision if kill is not None else None
    return seen if seen is not None or logged is None else logged.task_memcg


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
