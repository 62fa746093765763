# SPDX-License-Identifier: Apache-2.0
"""What trains and failed by itself: it may be why the job was ended, and a later kill may not be why it failed."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from tracer.events import ProcessId
from tracer.verdict.collateral import got_over
from tracer.verdict.deaths import Death
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding
from tracer.verdict.rules import exited
from tracer.verdict.terminations import told_by_the_job


class Failures:
    """Of one case: exits with a status of what has a part in the training, but for the job's own end."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._over: dict[ProcessId, int | None] = {}

    @cached_property
    def deaths(self) -> Sequence[Death]:
        """In time order."""
        case = self._case
        failed = [d for d in case.deaths if d.code and d is not case.root_death and trains(case, d.id)]
        return [d for d in failed if not told_by_the_job(case, d)]

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """The same as findings."""
        return [exited.of_member(self._case, death) for death in self.deaths]

    def before(self, finding: Finding) -> Iterable[Death]:
        """Those that the job had not got over when something was done to it."""
        for death in self.deaths:
            if death.at_ns >= finding.at_ns:
                return
            over_ns = self._over_ns(death)
            if death.id not in finding.ids and (over_ns is None or over_ns >= finding.at_ns):
                yield death

    def apart(self, primary: Finding) -> Sequence[Finding]:
        """Those after an OOM kill of what has no part in the training: they may have nothing to do with it."""
        if primary.kind != "oom" or any(trains(self._case, one) for one in primary.ids):
            return []
        return [one for one in self.findings if one.at_ns > primary.at_ns]

    def _over_ns(self, death: Death) -> int | None:
        if death.id not in self._over:
            self._over[death.id] = got_over(self._case, death.id, death.at_ns)
        return self._over[death.id]


def trains(case: Case, identity: ProcessId) -> bool:
    """Whether a process has a part in the training."""
    role = case.story.roles.get(identity)
    return role is not None and role.name in TRAINING_ROLES
