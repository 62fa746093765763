# SPDX-License-Identifier: Apache-2.0
"""What other witnesses counted and the kills that were seen do not explain: nothing is claimed against these."""

from collections.abc import Iterable

from tracer.events import Armed, KernelStack, LoggedKill, OomLevel, OomMark, ProcessExited, SignalSent, process_id
from tracer.verdict.kills import Kills, is_kernel_kill_signal
from tracer.verdict.model import Counter, Reconciliation
from tracer.verdict.reconcile import plural, where
from tracer.verdict.story import Story
from tracer.verdict.windows import LOG_WINDOW_NS


def unexplained(story: Story, kills: Kills, counters: Reconciliation | None) -> tuple[str, ...]:
    """Signs of an OOM kill in the job that was not seen as one: marked exits, the log, the kernel's counters."""
    signs = (_of_nobody_known, _marked_exits, _logged, _pieces)
    found = [text for find in signs for text in find(story, kills)]
    return tuple(dict.fromkeys([*found, *_counted(story, counters)]))


def _of_nobody_known(story: Story, kills: Kills) -> Iterable[str]:
    """Kills that were seen in full, of processes that may well be the job's."""
    for kill in kills.kills:
        if not story.is_ours(kill.id.tgid, kill.start_ns) and story.may_be_ours(kill.levels, kill.at_ns):
            yield f"whether pid {kill.id.tgid}, which the kernel killed for want of memory, was of the job is not known"


def _marked_exits(story: Story, kills: Kills) -> Iterable[str]:
    dying = {mark.id for mark in kills.dying}
    for exited in story.of(ProcessExited):
        identity = process_id(exited.tgid, exited.start_ns)
        if exited.oom_marked and exited.in_tree and kills.of(identity) is None and identity not in dying:
            yield f"pid {exited.tgid} was marked by the OOM killer, and neither the mark nor a kill was seen"


def _logged(story: Story, kills: Kills) -> Iterable[str]:
    if story.pids_differ:  # the log speaks of other processes than the tree does
        return
    seen = {pid for kill in kills.kills for pid in (kill.id.tgid, kill.mark.tid if kill.mark else None)}
    for logged in story.of(LoggedKill):
        if not logged.trusted or logged.pid in seen:
            continue
        ours = story.tree.alive_at(logged.pid, logged.ts_ns) is not None or _is_thread_of_ours(story, logged)
        # Of every kill on the machine there is a mark: one that vanished with all that was known of it may be ours.
        watched = story.watched("mark_victim") and logged.ts_ns >= story.of(Armed)[0].ts_ns
        if ours or (watched and not _before_the_job(story, logged)):
            yield f"the kernel's log says that pid {logged.pid} was killed, and that was not seen"


def _before_the_job(story: Story, logged: LoggedKill) -> bool:
    """Whether it was read before a job of ours was let go.

    The log is open while the hooks are being attached, and its clock is not known yet: the time of such a record may be
    off by a second.
    """
    return story.job is not None and not story.job.attached and logged.seq < story.job.seq


def _pieces(story: Story, kills: Kills) -> Iterable[str]:
    """What the kernel's programs tell beside a mark, where that mark is not there."""
    if not story.watched("mark_victim"):
        return
    marks = {(mark.ts_ns, mark.tgid) for mark in story.of(OomMark)}
    found = [(level.ts_ns, level.mark_tgid) for level in story.of(OomLevel)]
    found += [(stack.mark_ts_ns, stack.tgid) for stack in story.of(KernelStack)]
    known = {kill.id.tgid for kill in kills.kills}
    for tgid in dict.fromkeys(tgid for ts_ns, tgid in found if (ts_ns, tgid) not in marks and tgid not in known):
        yield f"pid {tgid} was marked by the OOM killer, and of that mark only a part was recorded"


def _is_thread_of_ours(story: Story, logged: LoggedKill) -> bool:
    """The log names a thread where its leader was gone already: it is known by the kernel's SIGKILL to that."""
    return any(
        is_kernel_kill_signal(signal)
        and abs(signal.ts_ns - logged.ts_ns) <= LOG_WINDOW_NS
        and story.is_ours(signal.tgid, signal.start_ns)
        for signal in story.by(SignalSent, lambda s: s.tid, "tid").get(logged.pid, ())
    )


def _counted(story: Story, counters: Reconciliation | None) -> Iterable[str]:
    """Counts that no kill explains that was seen. What was lost may have been of the job, and is no excuse."""
    found = [] if counters is None else counters.counters
    job = next((c for c in found if c.whose == "job"), None)
    near = next((c for c in found if c.whose == "above" and c.unexplained > 0), None)
    # Without BPF the machine's count has those of others in it, and a rule of its own looks at them.
    machine = next((c for c in found if c.whose == "machine" and counters is not None and counters.watched), None)
    for counter in (job, machine):
        excused = job is not None and near is None and _speaks_for_all(story, job)
        if counter is None or (counter is machine and excused):
            continue
        seen = counter.seen + counter.counted_again + counter.maybe + counter.maybe_again
        if counter.counted > seen:
            yield f"the kernel counted {plural(counter.counted)} {where(counter)}, and {seen} were seen"
            return


def _speaks_for_all(story: Story, job: Counter) -> bool:
    """Whether that count has every process of the job in it: then whatever is missing elsewhere is none of it."""
    whole = job.file == "memory.events" and not job.explained_by and job.unexplained == 0
    return whole and not any(_is_elsewhere(job.cgroup or "", path) for path in _cgroups(story))


def _cgroups(story: Story) -> Iterable[str]:
    """Where processes of the job were seen."""
    return {seen.cgroup for member in story.tree.members.values() for seen in member.seen if seen.cgroup is not None}


def _is_elsewhere(own: str, path: str) -> bool:
    return path != own and not path.startswith(f"{own.rstrip('/')}/")


def contradicted(counters: Reconciliation | None) -> tuple[str, ...]:
    """That fewer kills were counted on the machine than were seen: one of these may be none."""
    found = [] if counters is None else counters.counters
    return tuple(
        f"the kernel counted {plural(c.counted)} {where(c)}, and {c.seen + c.counted_again} were seen"
        for c in found
        if c.whose == "machine" and c.unexplained < 0
    )
