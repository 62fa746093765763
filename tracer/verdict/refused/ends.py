# SPDX-License-Identifier: Apache-2.0
"""Refusals without words: who failed by itself at a bound, and gave no reason. A hint, and no more."""

from bisect import bisect_right
from collections.abc import Iterator

from tracer.events import OutputWatched
from tracer.units import NS_PER_S
from tracer.verdict.cuda.refusals import BY_SIGNAL
from tracer.verdict.deaths import Death
from tracer.verdict.incident import TRAINING_ROLES, Case
from tracer.verdict.refused.bounds import address_space, is_full
from tracer.verdict.refused.rooms import room
from tracer.verdict.refused.words import Kind, Refused
from tracer.verdict.spoken import SOON_NS, is_command

BRIM = 0.98
"""Of a bound: so near it must have been where nothing else speaks for it."""
REPEATED_NS = 5 * NS_PER_S
"""A shell that exits with the status of its last command does so within this."""
NO_REASON = frozenset({"progress", "checkpoint", "optimizer_step", "host_alloc"})
"""Lines (`TrainingLine.about`) that are no other reason to fail."""


def by_bounds(case: Case) -> Iterator[Refused]:
    """One a process that has a part in the training, or whose status is the job's."""
    signalled = sorted(death.at_ns for death in case.deaths if death.signal)
    for death in case.deaths:
        if not 0 < death.code <= BY_SIGNAL or not _has_part(case, death):
            continue
        before = bisect_right(signalled, death.at_ns)
        if before and death.at_ns - signalled[before - 1] <= SOON_NS:
            continue  # it may well have failed because of that one
        if _says_otherwise(case, death):
            continue
        mapped, shm = address_space(case, death.id), room(case, death.at_ns)
        full = mapped is not None and is_full(mapped, BRIM)
        if full or (shm is not None and shm.brimful):
            kind: Kind = "host" if full else "shm"
            yield Refused(kind=kind, death=death, at_ns=death.at_ns, who=death.id, sure=False)


def _has_part(case: Case, death: Death) -> bool:
    role, end = case.story.roles.get(death.id), case.root_death
    if role is not None and role.name in TRAINING_ROLES - {"launcher"}:
        return True
    if end is None or not is_command(case, death.id):
        return False
    # Commands of a shell fail all the time, and most of them matter to nobody.
    return death is end or (death.code == end.code and 0 <= end.at_ns - death.at_ns <= REPEATED_NS)


def _says_otherwise(case: Case, death: Death) -> bool:
    """Whether its words, which were read, give a reason: whatever that is, it is not this one."""
    if not case.story.of(OutputWatched) and not case.said.lines:
        return False
    return any(
        line.about not in NO_REASON and -NS_PER_S <= death.at_ns - line.ts_ns <= SOON_NS for line in case.said.lines
    )
