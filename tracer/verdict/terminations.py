# SPDX-License-Identifier: Apache-2.0
"""What came of a SIGTERM: its receiver ended by it, exited because of it, or went on, and did not end of it."""

from collections.abc import Iterable

from tracer.events import ProcessId, SignalSent, process_id
from tracer.events.signals import SIGTERM, TRACE_SIGNAL_DELIVERED, TRACE_SIGNAL_IGNORED
from tracer.units import NS_PER_S, format_duration
from tracer.verdict import senders
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case

HANDLED_NS = 60 * NS_PER_S
"""So long a handler may take before its process exits: Kubernetes gives 30 s, Slurm 30, systemd 90 at most."""
SHELL_SIGTERM = 128 + SIGTERM
"""With this a process says that it exits because of a SIGTERM."""
ENDING_NS = NS_PER_S
"""One that is dying takes no signal any more."""


def ended_of(case: Case, death: Death) -> SignalSent | None:
    """The SIGTERM from elsewhere because of which it exited; `None`: it was not sent one, or had gone on after it."""
    if death.signal or not death.failed:
        return None
    found = [signal for signal in death.terminations if is_from_elsewhere(case, signal)]
    last = found[-1] if found else None
    soon = last is not None and death.at_ns - last.ts_ns <= HANDLED_NS
    return last if soon or death.code == SHELL_SIGTERM else None


def told_by_the_job(case: Case, death: Death) -> bool:
    """Whether its own job had told it to end, and it then did."""
    inside = [s for s in death.terminations if not is_from_elsewhere(case, s)]
    return not death.signal and any(death.at_ns - signal.ts_ns <= HANDLED_NS for signal in inside)


def is_from_elsewhere(case: Case, signal: SignalSent) -> bool:
    """Whether no process of the job is known to have sent it, and somebody is."""
    sender = senders.sender(case.story, signal)
    return sender is not None and sender.kind in {"outside", "daemon", "kernel"}


def went_on(case: Case, death: Death) -> Iterable[str]:
    """For an exit: what it had been told before, and had not ended of, or not as a failure."""
    of = ended_of(case, death)
    last = next((s for s in reversed(death.terminations) if is_from_elsewhere(case, s)), None)
    if of is not None or last is None or death.signal:
        return
    span_ns = death.at_ns - last.ts_ns
    told = f"{format_duration(span_ns)} before, it had got SIGTERM from {senders.sender_in_short(case.story, last)}"
    if death.failed:
        yield f"{told}, and went on."
    elif span_ns <= HANDLED_NS:
        yield f"{told}: it may have ended because of that."


def outcome(case: Case, signal: SignalSent) -> str:
    """Of a SIGTERM, for the timeline: what its receiver made of it; empty: it ended by it."""
    death = case.death(process_id(signal.tgid, signal.start_ns))
    if signal.result == TRACE_SIGNAL_IGNORED:
        return "; it was ending already" if _is_ending(death, signal) else "; ignored"
    if death is None:
        return "; it went on"
    if death.by is not None and (death.by.seq == signal.seq or _passed_on(death, signal)):
        return ""
    after = format_duration(death.at_ns - signal.ts_ns)
    if death.signal == 0 and death.at_ns - signal.ts_ns <= HANDLED_NS:
        return f"; it exited with {death.code} {after} later"
    return f"; it went on for {after}"


def _passed_on(death: Death, signal: SignalSent) -> bool:
    """Whether its handler had tidied up, and sent it to the process itself once more: it ended by that."""
    to_itself = process_id(signal.sender_tgid, signal.sender_start_ns) == death.id
    by = death.by
    return by is not None and to_itself and by.signal == signal.signal and by.ts_ns <= signal.ts_ns


def shown(case: Case) -> Iterable[tuple[SignalSent, ProcessId]]:
    """SIGTERMs to processes of the job that were delivered or ignored, in time order."""
    for signal in case.story.of(SignalSent):
        identity = process_id(signal.tgid, signal.start_ns)
        taken = signal.result in {TRACE_SIGNAL_DELIVERED, TRACE_SIGNAL_IGNORED}
        if signal.signal == SIGTERM and taken and case.story.is_ours(signal.tgid, signal.start_ns):
            yield signal, identity


def _is_ending(death: Death | None, signal: SignalSent) -> bool:
    return death is not None and death.at_ns - signal.ts_ns <= ENDING_NS
