# SPDX-License-Identifier: Apache-2.0
"""A Slurm job that oomtrace attached to: its roots are slurmstepd, one a step, which end with 0 whatever happens."""

from collections.abc import Iterator, Mapping

from tracer.attribution.cgroup_paths import place_of
from tracer.attribution.roles.names import STEP_DAEMON
from tracer.events import ProcessId
from tracer.verdict.deaths import Death
from tracer.verdict.story import Story

EXTERN = "extern"
"""The step that Slurm keeps for logins to the node: it sleeps, and is killed when the job has ended."""
SCRIPT = "batch"


def end_of_steps(story: Story, deaths: Mapping[ProcessId, Death]) -> Death | None:
    """How the job ended: as its batch script did, else as the first task that failed, else as the last one.

    `None`: it is no such job, or one of those still runs, or was not seen to end.
    """
    found = list(_tasks(story))
    scripts = [task for step, task in found if step == SCRIPT]
    meant = scripts[:1] or [task for step, task in found if step != EXTERN]
    ends = sorted((deaths[task] for task in meant if task in deaths), key=lambda death: (death.at_ns, death.id))
    if not ends or len(ends) < len(meant):
        return None
    return next((death for death in ends if death.failed), ends[-1])


def own_roots(story: Story) -> frozenset[ProcessId]:
    """The roots, but for the step that Slurm keeps for itself: that its sleep is killed is no end of anything."""
    return frozenset(
        root for root in story.tree.roots if not (_is_daemon(story, root) and _step(story, root) == EXTERN)
    )


def _tasks(story: Story) -> Iterator[tuple[str | None, ProcessId]]:
    """What each slurmstepd among the roots has begun, with the name of its step: not what it forked for itself."""
    root = story.tree.root
    if root is None or not _is_daemon(story, root):
        return
    for identity in story.tree.roots:
        member = story.tree.members.get(identity)
        if member is None or not _is_daemon(story, identity):
            continue
        step = _step(story, identity)
        for child in member.children:
            below = story.tree.members.get(child)
            if below is not None and below.comm != STEP_DAEMON:
                yield step, child


def _step(story: Story, identity: ProcessId) -> str | None:
    places = [place_of(seen.cgroup) for seen in story.tree.members[identity].seen if seen.cgroup is not None]
    return next((place.slurm_step for place in places if place is not None), None)


def _is_daemon(story: Story, identity: ProcessId) -> bool:
    role = story.roles.get(identity)
    return role is not None and role.name == "launcher" and role.service == STEP_DAEMON
