# SPDX-License-Identifier: Apache-2.0
"""What other witnesses counted and the kills that were seen do not explain: nothing is claimed against these."""

from collections.abc import Iterable

from tracer.events import CgroupSample, LoggedKill, ProcessExited, process_id
from tracer.verdict.kills import Kills
from tracer.verdict.story import Story


def unexplained(story: Story, kills: Kills) -> tuple[str, ...]:
    """Signs of an OOM kill in the job that was not seen as one: marked exits, the log, the cgroup's counter."""
    signs = (_of_nobody_known, _marked_exits, _logged, _counted)
    return tuple(dict.fromkeys(text for find in signs for text in find(story, kills)))


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
        member = story.tree.alive_at(logged.pid, logged.ts_ns) if logged.trusted else None
        if member is not None and logged.pid not in seen:
            yield f"the kernel's log says that pid {logged.pid} was killed, and that was not seen"


def _counted(story: Story, kills: Kills) -> Iterable[str]:
    """Group kills count their first victim twice, so only more than twice the kills that were seen is too many."""
    job = story.job
    counts = [
        s.oom_kill
        for s in story.of(CgroupSample)
        if job is not None and s.cgroup_id is not None and s.cgroup_id == job.cgroup_id and s.oom_kill is not None
    ]
    if not counts or job is None:
        return
    before = 0 if job.own_cgroup else counts[0]
    seen = sum(1 for kill in kills.kills if not kill.levels or job.cgroup_id in {lv.cgroup_id for lv in kill.levels})
    if counts[-1] - before > 2 * seen:
        yield f"the job's cgroup counted {counts[-1] - before} OOM kills, and {seen} were seen"
