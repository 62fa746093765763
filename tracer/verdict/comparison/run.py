# SPDX-License-Identifier: Apache-2.0
"""One recording, as far as it can be compared: how it ended, its marks, and since when it held how much."""

import msgspec

from tracer.attribution.tree import Member
from tracer.events import EndAsked, JobEnded, SignalSent, TrainingLine
from tracer.units import NS_PER_S
from tracer.verdict.comparison.course import Course, course_of, last_look_ns, level_of
from tracer.verdict.incident import Case
from tracer.verdict.limit_counted import shortage_of
from tracer.verdict.marks import Marks, marks_of
from tracer.verdict.mechanisms.evidence import gather
from tracer.verdict.mechanisms.filled import owner_id
from tracer.verdict.model import Incident, Verdict

FOR_MEMORY = frozenset({
    "host_oom_global", "host_oom_cgroup", "host_oom_cpuset", "host_oom_mempolicy", "host_oom_unknown_scope",
    "userspace_oom_daemon", "shm_exhausted", "host_allocation_failed", "memory_stall", "pinned_host_memory",
})  # fmt: skip
"""Ends for want of host memory."""
REFUSED = frozenset({"host_allocation_failed", "pinned_host_memory", "shm_exhausted"})
"""Those of them in which nobody was killed to make room."""
OPEN = frozenset({"inconclusive", "sigkill", "kernel_sigkill_other"})
"""Ends that may have been one of those."""
ENDING_SHARE = 0.3
"""In this last part of the time the first end of a process that had been there is where the job began to end."""
OLD_SHARE = 0.5


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Moments are CLOCK_MONOTONIC."""

    path: str | None
    case: Case
    verdict: Verdict
    incident: Incident
    """The first that was for want of memory, else what started the failure."""
    killed: bool
    """It ended for want of memory: it was killed, or was refused some."""
    maybe_killed: bool
    """It may have been for want of memory."""
    asked_ns: int | None
    """When `run --until` or `--for` ended it."""
    marks: Marks
    begin_ns: int
    """Of the job."""
    end_ns: int
    """The first kill, or else where the job began to end."""
    course: Course | None
    peak_bytes: int | None
    """At the kill, by the kernel's own report where there is one."""

    @property
    def ended_as_asked(self) -> bool:
        return self.asked_ns is not None

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end_ns - self.begin_ns) / NS_PER_S)

    @property
    def ended_so(self) -> str:
        """In words, of one that ended for want of memory."""
        return {
            "shm_exhausted": "had no room left in /dev/shm",
            "memory_stall": "stalled for want of memory",
        }.get(self.incident.cause, f"was {'refused' if self.refused else 'killed for want of'} memory")

    @property
    def refused(self) -> bool:
        """Whether it ended for want of memory, and was not killed by who makes room."""
        return self.incident.cause in REFUSED

    @property
    def limit_bytes(self) -> int | None:
        return None if self.course is None else self.course.limit_bytes

    def on(self, levels_up: int | None) -> "Run":
        """The same of another cgroup of its chain."""
        course = course_of(self.case.story, levels_up)
        return msgspec.structs.replace(self, course=course)


def run_of(case: Case, verdict: Verdict, path: str | None = None) -> Run:
    """What there is to compare.

    Args:
        case: the facts of one recording.
        verdict: over it.
        path: where it lies.
    """
    memory = next((i for i in verdict.incidents if i.cause in FOR_MEMORY), None)
    incident = memory or verdict.incidents[verdict.primary]
    marks = marks_of(case.story)
    begin_ns = case.story.job.ts_ns if case.story.job is not None else 0
    asked_ns = min((e.ts_ns for e in case.story.of(EndAsked)), default=None)
    kill_ns, peak, levels_up = _kill(case)
    end_ns = kill_ns if kill_ns is not None else _end(case, marks, begin_ns)
    if kill_ns is None and memory is not None:
        end_ns = min([end_ns, *_moments(case, memory)])
    return Run(
        path=path,
        case=case,
        verdict=verdict,
        incident=incident,
        killed=memory is not None or kill_ns is not None,
        maybe_killed=asked_ns is None and any(_open(one) for one in (incident, *verdict.incidents)),
        asked_ns=asked_ns,
        marks=marks,
        begin_ns=begin_ns,
        end_ns=end_ns,
        course=course_of(case.story, levels_up),
        peak_bytes=peak,
    )


def _open(incident: Incident) -> bool:
    """Whether it may have been killed for all that is known: it failed, and that nothing was killed is not sure."""
    failed = incident.cause == "crash" or (incident.cause == "exited" and incident.exit_code != 0)
    return incident.cause in OPEN or (failed and incident.strength != "proved")


def _kill(case: Case) -> tuple[int | None, int | None, int | None]:
    """When the first process of the job was killed, what could not be given back then, and where the limit was."""
    story = case.story
    ours = [kill for kill in case.kills.kills if story.is_ours(kill.id.tgid, kill.start_ns)]
    if not ours:
        return None, None, None
    kill = min(ours, key=lambda one: one.at_ns)
    shortage = shortage_of(story, kill)
    level = level_of(story, owner_id(kill, shortage))
    evidence = gather(case, kill, shortage)
    peak = None if evidence is None or evidence.limited.machine else evidence.now.held_bytes
    return kill.at_ns, peak, level


def _moments(case: Case, incident: Incident) -> list[int]:
    """Of an incident; behind it there is no training, only a job that ends."""
    events = (*case.story.of(TrainingLine), *case.story.of(SignalSent))
    return [event.ts_ns for event in events if incident.at is not None and case.story.utc(event.ts_ns) == incident.at]


def _end(case: Case, marks: Marks, begin_ns: int) -> int:
    """Up to where memory tells of training, and not of a job that ends."""
    story = case.story
    ends = [e.ts_ns for e in (*story.of(JobEnded), *story.of(EndAsked))]
    last = last_look_ns(story)
    end_ns = min([*ends, *([last] if last is not None else [])], default=begin_ns)
    if case.root_death is not None:
        end_ns = min(end_ns, case.root_death.at_ns)
    if marks.last_ns is not None and marks.steps:
        return min(end_ns, marks.last_ns)  # what comes after the last step is the end of the job
    late_ns = end_ns - round(ENDING_SHARE * (end_ns - begin_ns))
    old_ns = begin_ns + round(OLD_SHARE * (end_ns - begin_ns))
    gone = [m.end_ns for m in story.tree.members.values() if m.end_ns is not None and _was_there(m, old_ns)]
    return max(begin_ns, min([end_ns, *(at_ns for at_ns in gone if at_ns >= late_ns)]))


def _was_there(member: Member, at_ns: int) -> bool:
    return member.began_ns is not None and member.began_ns <= at_ns
