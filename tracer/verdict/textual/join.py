# SPDX-License-Identifier: Apache-2.0
"""Whether a kill that the kernel's log has is the job's: by pid, by cgroup, by time, or by a name alone.

Pids in a job's log are those of its own pid namespace, the kernel's are the host's. A pid that agrees may be another
process: so name and time must not speak against it. Without a pid, name and time together tie; a name alone hints.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tracer.attribution.places import Place
from tracer.events import Passage, ReportedLine, TrainingLine
from tracer.verdict.textual.deaths import Own
from tracer.verdict.textual.kernel import Report, Victim
from tracer.verdict.textual.times import gap, is_far, is_near

TieKind = Literal["pid", "cgroup", "time", "alone", "name", "none"]
RANKS: Mapping[TieKind, int] = {"pid": 0, "cgroup": 1, "time": 2, "alone": 3, "name": 4, "none": 5}
_TRAINS = re.compile(
    r"pt_|python|pypy|ipython|jupyter|torchrun|accelerate|deepspeed|ray::|ray_|raylet|VLLM|vllm|sglang|horovod|mpirun|orte|"
    r"dask|julia|train|bash$|sh$|\(python"
)
_SILENCE_S = 900
"""So long before a kill a log may have said its last word."""


class Tie(NamedTuple):
    """What ties a victim to the job."""

    kind: TieKind
    statement: str
    victim: Victim
    line: TrainingLine | None = None
    """Of the job's own log."""
    passage: Passage | None = None
    assumed: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    fits: bool = False
    """Its name fits, and so do those of other kills: which of them is the job's, if any, nothing says."""


def may_train(comm: str | None) -> bool:
    """Whether a process of this name can be one of a training job; without a name it can."""
    return comm is None or _TRAINS.match(comm) is not None


def tie(report: Report, own: Own, reported: Sequence[Passage], place: Place | None, *, drifts: bool) -> Tie:
    """The best that is found for any of the victims."""
    ties = [_tie(victim, own, reported, place, drifts=drifts) for victim in report.victims]
    return min(ties, key=lambda each: RANKS[each.kind])


def _tie(victim: Victim, own: Own, reported: Sequence[Passage], place: Place | None, *, drifts: bool) -> Tie:
    against: list[str] = []
    if not own.lines:
        return Tie("alone", "no line of the job's own says whether", victim)
    by_pid = _by_pid(victim, own, place, against, drifts=drifts)
    if by_pid is not None:
        return by_pid
    by_cgroup = _by_cgroup(victim, own, reported, place)
    if by_cgroup is not None:
        return by_cgroup
    if not may_train(victim.comm):
        return Tie("none", f"nothing ties {victim.comm!r} to the job", victim, against=tuple(against))
    by_time = _by_time(victim, own, place, drifts=drifts)
    if by_time is not None:
        return by_time._replace(against=tuple(against))
    if _is_silent(own) and not against and gap(own.lines[-1], victim.passage, drifts=drifts) is None:
        return Tie("name", "its name alone ties it to the job, whose log tells of no failure", victim)
    dead = [failure for failure in own.failures if failure.how in {"sigkill", "vanished"}]
    if any(_may_be(victim, failure.line, place) for failure in dead) and not _times_differ(victim, own):
        statement = "its name alone ties it to the job: neither a pid nor a time does"
        return Tie("name", statement, victim, against=tuple(against))
    return Tie("none", "nothing ties it to the job", victim, against=tuple(against))


def _by_pid(victim: Victim, own: Own, place: Place | None, against: list[str], *, drifts: bool) -> Tie | None:
    for pid, passage, line in own.claims():
        if pid != victim.pid:
            continue
        if not may_train(victim.comm):
            against.append(f"The job's log names pid {pid} as well, but the kernel killed {victim.comm!r} under it.")
            continue
        if line.about == "worker_killed" and victim.comm in {"torchrun", "mpirun", "raylet"}:
            continue
        between = gap(victim.passage, passage, drifts=drifts)
        if between is not None and is_far(between):
            against.append(
                f"The job's log names pid {pid} as well, but {_hours(between.seconds)} away from this kill: "
                "pids are used again."
            )
            continue
        assumed = []
        if place is not None and (place.container is not None or place.pod_uid is not None):
            assumed.append(
                f"pid {pid} of the job's log was taken for the kernel's, though it ran in a container, "
                "which mostly has pids of its own"
            )
        if between is not None and between.assumed is not None:
            assumed.append(between.assumed)
        return Tie("pid", f"the job's own log names pid {pid}", victim, line, passage, tuple(assumed))
    return None


def _by_cgroup(victim: Victim, own: Own, reported: Sequence[Passage], place: Place | None) -> Tie | None:
    if place is None:
        return None
    files = {passage.file for passage in own.lines}
    for passage in reported:
        line = passage.event
        if not isinstance(line, ReportedLine) or passage.file not in files:
            continue
        if line.slurm_job is not None and line.slurm_job == place.slurm_job:
            return Tie("cgroup", f"its cgroup is that of Slurm job {line.slurm_job}, as the job's log says", victim)
        if line.container is not None and (place.container or "").startswith(line.container[:12]):
            return Tie("cgroup", "its cgroup is that of the container that the job's log names", victim)
    return None


def _may_be(victim: Victim, line: TrainingLine, place: Place | None) -> bool:
    """Whether the process that a line names can be the kernel's: by what both were, and by their pids.

    A rank that lost a worker exits 1: one that got -9 was killed itself. Outside of containers pids are the kernel's.
    """
    if victim.comm == "pt_data_worker" and line.about in _OF_A_RANK:
        return False
    if not line.pids or victim.pid in line.pids or place is None:
        return True
    return place.container is not None or place.pod_uid is not None or place.machine is not None


_OF_A_RANK = frozenset({"rank_failed", "failure_report", "spawn_failed"})


def _by_time(victim: Victim, own: Own, place: Place | None, *, drifts: bool) -> Tie | None:
    deaths = [failure for failure in own.failures if failure.how in {"sigkill", "vanished"}]
    for failure in deaths:
        between = gap(victim.passage, failure.passage, drifts=drifts)
        if between is None or not is_near(between, drifts=drifts) or not _may_be(victim, failure.line, place):
            continue
        assumed = [between.assumed] if between.assumed is not None else []
        if drifts:
            assumed.append("times of dmesg -T drift, so some minutes were allowed between the logs")
        pids = failure.line.pids
        if pids and victim.pid not in pids:
            assumed.append(
                f"pid {pids[0]} of the job's log was taken to be pid {victim.pid} of the kernel's, as in a container"
            )
        statement = f"name and time agree with the job's log ({abs(between.seconds):.0f} s apart)"
        return Tie("time", statement, victim, failure.line, failure.passage, tuple(assumed))
    if deaths or not _is_silent(own):
        return None
    last = own.lines[-1]
    between = gap(last, victim.passage, drifts=drifts)
    if between is None or not -1 <= between.seconds <= _SILENCE_S:
        return None
    assumed = [between.assumed] if between.assumed is not None else []
    statement = f"the job's log ends {max(between.seconds, 0):.0f} s before the kill"
    return Tie("time", statement, victim, None, last, tuple(assumed))


def _is_silent(own: Own) -> bool:
    """Whether it breaks off without a word of a failure, but for others' complaints."""
    return not own.failures


def _times_differ(victim: Victim, own: Own) -> bool:
    gaps = [gap(victim.passage, failure.passage) for failure in own.failures]
    known = [found for found in gaps if found is not None]
    return bool(known) and all(not is_near(found, drifts=True) for found in known)


def _hours(seconds: float) -> str:
    hours = abs(seconds) / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.0f} h"
