# SPDX-License-Identifier: Apache-2.0
"""The passages that a verdict speaks of, in their order: what an editor shows beside the lines."""

from collections.abc import Sequence

from tracer.events import (
    LogEvent,
    LoggedDecision,
    LoggedInvocation,
    LoggedKill,
    LoggedUsage,
    Passage,
    ReportedLine,
    Text,
    TrainingLine,
)
from tracer.units import format_bytes
from tracer.verdict.model import Incident
from tracer.verdict.textual.deaths import Failure, Own
from tracer.verdict.textual.model import Cited, Part, Read

MOST = 200


def cited(
    incident: Incident, own: Own, first: Failure | None, passages: Sequence[Passage], texts: Sequence[Text]
) -> tuple[Cited, ...]:
    """What the verdict rests on, the first failure, its consequences."""
    parts: dict[int, Part] = {}
    for failure in own.failures:
        parts[failure.line.seq] = "note"
    for passage in own.collateral:
        parts[passage.event.seq] = "collateral"
    for link in incident.proof:
        for seq in link.evidence:
            parts[seq] = "cause"
    if first is not None:
        parts[first.line.seq] = "first"
        for failure in own.failures:
            if failure.line.seq > first.line.seq and failure.passage.file == first.passage.file:
                parts.setdefault(failure.line.seq, "collateral")
                if parts[failure.line.seq] == "note":
                    parts[failure.line.seq] = "collateral"
    by_seq = {passage.event.seq: passage for passage in passages if passage.event.seq in parts}
    order = sorted(by_seq)[:MOST]
    return tuple(_cited(by_seq[seq], parts[seq], texts) for seq in order)


def what_was_read(passages: Sequence[Passage], texts: Sequence[Text]) -> tuple[Read, ...]:
    """Each text, and what it turned out to be."""
    kernel = {passage.file for passage in passages if isinstance(passage.event, LogEvent)}
    other = {passage.file for passage in passages if not isinstance(passage.event, LogEvent)}
    read = []
    for number, text in enumerate(texts):
        both = number in kernel and number in other
        kind = (
            "kernel and other lines" if both else "kernel log" if number in kernel else "log" if number in other else ""
        )
        read.append(Read(file=text.name, kind=kind or "nothing recognised", lines=text.lines))
    return tuple(read)


def _cited(passage: Passage, part: Part, texts: Sequence[Text]) -> Cited:
    event = passage.event
    pid = getattr(event, "pid", None) or getattr(event, "tgid", None)
    if isinstance(event, TrainingLine):
        pid = next(iter(event.pids), None)
    return Cited(
        seq=event.seq,
        file=texts[passage.file].name,
        line=passage.line,
        column=passage.column,
        part=part,
        says=recognised(event),
        text=event.text[:300],
        pid=pid,
        rank=event.rank if isinstance(event, TrainingLine) else None,
        at=passage.wall,
    )


def recognised(event: LogEvent | TrainingLine | ReportedLine) -> str:
    """What was recognised in a line, in words of ours."""
    if isinstance(event, LoggedKill):
        had = f", {format_bytes(event.anon_rss_bytes)} anonymous" if event.anon_rss_bytes is not None else ""
        return f"the kernel killed {event.comm or 'a process'}, pid {event.pid}{had}"
    if isinstance(event, LoggedDecision):
        return f"the kernel chose pid {event.tgid} ({event.constraint})"
    if isinstance(event, LoggedUsage):
        return f"{event.counter}: {format_bytes(event.usage_bytes)} of {format_bytes(event.limit_bytes)}"
    if isinstance(event, LoggedInvocation):
        return f"{event.comm or 'a process'} asked for memory"
    if isinstance(event, LogEvent):
        return "a record of the kernel's"
    return _KINDS.get(event.about, event.about.replace("_", " "))


_KINDS: dict[str, str] = {
    "worker_killed": "a DataLoader worker was killed by a signal",
    "worker_exited": "a DataLoader worker ended without a word",
    "worker_raised": "an exception in a DataLoader worker",
    "worker_fault": "a fault in a DataLoader worker",
    "pin_thread": "the thread that pins memory failed",
    "shm": "shared memory was refused",
    "rank_failed": "a launcher saw a rank fail",
    "failure_report": "a launcher's report of a failure",
    "spawn_failed": "a process of mp.spawn failed",
    "launcher_signals": "the launcher ends a process",
    "launcher_kills": "the launcher ends a process",
    "launcher_stopped": "the launcher was told to stop",
    "exit_status": "how a process ended",
    "subprocess_died": "a process of a pool vanished",
    "shell_killed": "the shell says that its job was killed",
    "ray_memory": "Ray ended workers for want of memory",
    "device_oom": "GPU memory was refused",
    "device_budget": "too little GPU memory was set aside",
    "cuda_error": "CUDA said out of memory",
    "host_alloc": "host memory was refused",
    "pinned_alloc": "pinned host memory was refused",
    "collective": "a collective operation failed, as another rank was gone",
    "exception": "an exception",
    "daemon_kill": "an OOM daemon ended a process",
    "unit_oom": "systemd saw the OOM killer in a unit",
    "container_oom": "a container was killed at its memory limit",
    "step_oom": "the scheduler saw the OOM killer in a step",
    "poll_kill": "the scheduler ended the job over its memory limit",
    "evicted": "the kubelet evicted the pod",
    "system_oom": "the node's agent saw the OOM killer",
    "exit_137": "a status that says a signal",
    "unit_killed": "the main process of a unit was killed",
    "service_kills": "a service manager killed a process",
    "container_kill": "a container was sent a signal",
    "cancelled": "the scheduler ended the job",
}
