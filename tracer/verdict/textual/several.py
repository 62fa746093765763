# SPDX-License-Identifier: Apache-2.0
"""Several kills that fit a job whose own log tells of no end: which was its own, if any, is not told."""

from collections.abc import Sequence

from tracer.events import Text
from tracer.verdict.model import Incident, Link
from tracer.verdict.textual import advice
from tracer.verdict.textual.host import place_in
from tracer.verdict.textual.kernel import Victim

_MOST_TOLD = 3
_MOST_CITED = 20


def one_of_several(victims: Sequence[Victim], texts: Sequence[Text]) -> Incident:
    """The kernel killed several whose names fit the job: neither a pid nor a time says which was its own, if any."""
    hints = frozenset(hint for text in texts for hint in text.hints)
    told = [
        f"{victim.comm or 'a process'} (pid {victim.pid}; {place_in(victim.passage, texts)})"
        for victim in (victims if len(victims) <= _MOST_TOLD else (victims[0], victims[-1]))
    ]
    among = ", ".join(told[:-1]) + " and " + told[-1]
    first_and_last = "" if len(victims) <= _MOST_TOLD else "first and last "
    summary = (
        f"Any of them may have been the job's, or none: {first_and_last}{among}. "
        "Neither a pid nor a time in the job's log says which."
    )
    return Incident(
        cause="inconclusive",
        strength="possible",
        headline=f"The kernel's OOM killer ended {len(victims)} processes; whether one was the job's is not told",
        summary=summary,
        proof=(
            Link(link=1, name="the kernel killed", status="present", statement="each as the kernel's log says",
                 evidence=tuple(victim.passage.event.seq for victim in victims[:_MOST_CITED]), rung="kernel_log"),
            Link(link=3, name="it is yours", status="not_observed",
                 statement="names fit, but neither a pid nor a time ties one of them to the job"),
        ),
        remedies=advice.to_tell_apart(hints),
    )  # fmt: skip
