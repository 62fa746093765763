# SPDX-License-Identifier: Apache-2.0
"""`run --until` and `--for`: oomtrace itself ended the job, as asked. That is no failure, and the sender is known."""

import msgspec

from tracer.events import EndAsked
from tracer.units import format_duration
from tracer.verdict import people
from tracer.verdict.incident import Case, Finding
from tracer.verdict.model import Link


def find(case: Case, end: Finding) -> Finding | None:
    """The job's end in place of what its parent saw; `None`: it was not asked for, or the job had ended before."""
    asked = next(iter(case.story.of(EndAsked)), None)
    death = case.root_death
    if asked is None or (death is not None and death.at_ns < asked.ts_ns):
        return None
    who = people.subject(case.story, death.id) if death is not None else "The job"
    took = "" if death is None else f" and ended {format_duration(death.at_ns - asked.ts_ns)} later ({death.status})"
    nothing = next((link for link in end.incident.proof if link.name == "no OOM kill"), None)
    unkilled = nothing is not None and nothing.status == "present"
    killed = (
        "nothing of the job was killed for want of memory" if unkilled else "whether nothing was killed is not sure"
    )
    first = Link(
        link=1,
        name="it was ended",
        status="present",
        statement=f"SIGTERM from oomtrace to its process group, since {asked.why}",
        evidence=(asked.seq,),
        rung=end.incident.proof[0].rung if end.incident.proof else None,
    )
    incident = msgspec.structs.replace(
        end.incident,
        headline=f"Ended by oomtrace, as asked: {asked.why}",
        summary=f"{who} got SIGTERM from oomtrace{took}; {killed}.",
        exit_code=None,
        as_asked=True,
        proof=(first, *end.incident.proof[1:]),
    )
    return msgspec.structs.replace(end, at_ns=asked.ts_ns, incident=incident)
