# SPDX-License-Identifier: Apache-2.0
"""A process that is none of the job's grew below the same limit, or on the same machine."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part


def judge(evidence: Evidence) -> Named | None:
    """By the kernel's table, by the job's own cgroup, or by what is charged beyond all processes of the job."""
    grown = evidence.outside_grown_bytes
    if evidence.alone or grown <= 0 or evidence.share(grown) < MOST_OF_IT:
        return None
    names = f": {', '.join(evidence.outside_names)}" if evidence.outside_names else ""
    where = "on the machine" if evidence.limited.machine else "below the same limit"
    known = "by the kernel's own table" if evidence.limited.tasks is not None else "at least"
    return Named(
        name="neighbour",
        strength="likely",
        share=evidence.share(grown),
        statement=f"processes that are none of the job's have {format_bytes(evidence.outside_bytes)} {where}{names}",
        because=(
            f"{part(grown, evidence.grown_bytes)} of the growth is theirs, {known}",
            f"the job's own processes have {format_bytes(sum(one.anon_bytes for one in evidence.people))} in all",
        ),
        against=() if evidence.outside_names else ("who they are was not recorded",),
    )
