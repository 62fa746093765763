# SPDX-License-Identifier: Apache-2.0
"""From a kill to the part of its incident that says why memory grew."""

from typing import NamedTuple

from tracer.verdict.incident import Case
from tracer.verdict.kills import Kill
from tracer.verdict.limit import Shortage
from tracer.verdict.mechanisms.choose import choose
from tracer.verdict.mechanisms.evidence import gather
from tracer.verdict.mechanisms.model import Picture
from tracer.verdict.mechanisms.picture import draw
from tracer.verdict.mechanisms.remedies import remedies
from tracer.verdict.model import Mechanism, Remedy

NOBODYS = frozenset({"cow_refcount", "kernel_memory", "neighbour", "tmpfs_data"})
"""What no process of the job has in its own growth."""


class Explained(NamedTuple):
    """All `None` or empty where nothing was looked at."""

    mechanism: Mechanism | None = None
    picture: Picture | None = None
    remedies: tuple[Remedy, ...] = ()

    @property
    def elsewhere(self) -> str | None:
        """What grew, where it would be wrong to blame the process that grew most."""
        found = self.mechanism
        sure = found is not None and found.strength == "likely" and found.name in NOBODYS
        return found.statement if found is not None and sure else None


def explain(case: Case, kill: Kill, shortage: Shortage) -> Explained:
    """Of the first kill of an incident: what came after it was short of the same memory."""
    if shortage.cause == "operator_oom":
        return Explained()
    evidence = gather(case, kill, shortage)
    if evidence is None:
        return Explained()
    named, picture = choose(evidence), draw(evidence)
    if named is None:
        return Explained(picture=picture)
    steps = picture.staircase
    because = named.because if steps is None else (*named.because, steps.statement)
    mechanism = Mechanism(
        name=named.name,
        or_=named.also,
        strength=named.strength,
        statement=named.statement,
        evidence=evidence.seqs,
        because=because,
        against=named.against,
        decide=named.decide if named.also else (),
    )
    return Explained(mechanism, picture, remedies(named, evidence))
