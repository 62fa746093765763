# SPDX-License-Identifier: Apache-2.0
"""Whose words a line of the job's log is: the process that ended soon after it, as far as that can be told."""

from tracer.events import ProcessId, TrainingLine
from tracer.events.signals import SIGABRT
from tracer.units import NS_PER_S
from tracer.verdict.deaths import Death
from tracer.verdict.incident import TRAINING_ROLES, Case
from tracer.verdict.said import writer

LAG_NS = 250_000_000
"""A line may be read this long after its writer had exited."""
SOON_NS = 60 * NS_PER_S
"""Later than this an exit has another reason, or nobody can tell."""


def whose(case: Case, line: TrainingLine, *, aborted: bool = False) -> Death | None:
    """Who exited of itself soon after: the process or the rank that wrote it, else the first with a part in it.

    Args:
        aborted: SIGABRT counts as well, with which C++ ends on what nobody catches.
    """
    after = [d for d in case.deaths if -LAG_NS <= d.at_ns - line.ts_ns <= SOON_NS]
    after = [d for d in after if d.code or (aborted and d.signal == SIGABRT)]
    wrote = writer(line)
    if wrote is not None:
        return next((d for d in after if d.id == wrote), None)
    for death in after:
        role = case.story.roles.get(death.id)
        if line.rank is not None and (role is None or role.name != "rank" or role.rank != line.rank):
            continue
        if (role is not None and role.name in TRAINING_ROLES - {"launcher"}) or is_command(case, death.id):
            return death
    return None


def is_anyones(case: Case, line: TrainingLine, death: Death) -> bool:
    """Whether the line names nobody, and another process that trains may have written it."""
    if writer(line) is not None or line.rank is not None:
        return False
    tree = case.story.tree
    others = (i for i, role in case.story.roles.items() if role.name == "rank" and i != death.id)
    return any(not tree.is_ancestor(i, death.id) and not tree.is_ancestor(death.id, i) for i in others)


def is_command(case: Case, identity: ProcessId) -> bool:
    """The job itself, or the command of a shell that is, where there is no training role."""
    member, role = case.story.tree.members.get(identity), case.story.roles.get(identity)
    if member is None or (role is not None and role.name != "job"):
        return False
    return identity in case.story.tree.roots or member.parent in case.story.tree.roots


def went_on(case: Case, line: TrainingLine, death: Death) -> bool:
    """Whether progress was told between both: what the line says was survived."""
    return any(one.about == "progress" and line.ts_ns < one.ts_ns < death.at_ns for one in case.said.lines)
