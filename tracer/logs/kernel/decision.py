# SPDX-License-Identifier: Apache-2.0
"""`oom-kill:constraint=...`: whose limit it was and who was chosen, from 5.0 on.

    oom-kill:constraint=C,nodemask=N,cpuset=X,mems_allowed=M,oom_memcg=B,task_memcg=A,task=COMM,pid=P,uid=U
    oom-kill:constraint=C,nodemask=N,cpuset=X,mems_allowed=M,global_oom,task_memcg=A,task=COMM,pid=P,uid=U

X, B, A and COMM are names from user space and may hold commas, `=` and every key of this line. The ends
are fixed; in the middle every reading is tried, and a name that two readings see differently is unknown.
"""

import math
import re

from tracer.events import LoggedDecision
from tracer.logs.kernel.shape import PID, Stamp, name, number, raw_name

_HEAD = re.compile(
    r"oom-kill:constraint=(?P<constraint>CONSTRAINT_[A-Z_]{1,20}),nodemask=(?:\(null\)|[0-9,-]+),cpuset="
)
_MEMS = re.compile(r",mems_allowed=[0-9,-]*(?=,)")
_END = re.compile(rf",pid=(?P<pid>{PID}),uid=(?P<uid>{PID})\Z")
_COMM_BYTES = 15
_READINGS = 4096
"""More combinations than this are not tried: the names are then unknown."""


def parse(text: str, stamp: Stamp) -> LoggedDecision | None:
    """The decision; of a line that was cut, what is certain."""
    head = _HEAD.match(text)
    if head is None:
        return None
    constraint = head["constraint"]
    end = _END.search(text)
    if end is None:
        return LoggedDecision(constraint=constraint, **stamp.fields(text))
    readings = _readings(text[head.end() - 1 : end.start()], constraint == "CONSTRAINT_MEMCG", stamp)
    return LoggedDecision(
        constraint=constraint,
        oom_memcg=_agreed({reading[0] for reading in readings}),
        task_memcg=_agreed({reading[1] for reading in readings}),
        comm=_agreed({reading[2] for reading in readings}),
        tgid=int(end["pid"]),
        uid=number(end["uid"]),
        **stamp.fields(text),
    )


def _readings(middle: str, memcg: bool, stamp: Stamp) -> set[tuple[str | None, str, str]]:
    """Each (oom_memcg, task_memcg, comm) that explains what stands between the cpuset and the pid."""
    readings: set[tuple[str | None, str, str]] = set()
    if math.prod(middle.count(key) or 1 for key in (",mems_allowed=", ",task_memcg=", ",task=")) > _READINGS:
        return readings
    for mems in _MEMS.finditer(middle):
        for oom_memcg, rest in _owners(middle[mems.end() :], memcg):
            for task_memcg, comm in _splits(rest, ",task="):
                if not _within(task_memcg, oom_memcg) or len(raw_name(comm, stamp)) > _COMM_BYTES:
                    continue
                owner = None if oom_memcg is None else name(oom_memcg, stamp)
                readings.add((owner, name(task_memcg, stamp), name(comm, stamp)))
    return readings


def _owners(rest: str, memcg: bool) -> list[tuple[str | None, str]]:
    # The kernel prints oom_memcg exactly when the constraint is CONSTRAINT_MEMCG (mm/oom_kill.c, dump_oom_victim).
    if memcg:
        owned = rest.removeprefix(",oom_memcg=")
        return [] if owned == rest else [(owner, task) for owner, task in _splits(owned, ",task_memcg=")]
    task = rest.removeprefix(",global_oom,task_memcg=")
    return [] if task == rest else [(None, task)]


def _splits(text: str, key: str) -> list[tuple[str, str]]:
    places = [match.start() for match in re.finditer(re.escape(key), text)]
    return [(text[:place], text[place + len(key) :]) for place in places]


def _within(task_memcg: str, oom_memcg: str | None) -> bool:
    """Whether the kernel could have meant this: the victim lives below the limit that was hit."""
    if not task_memcg.startswith("/") or "//" in task_memcg:
        return False
    return oom_memcg is None or oom_memcg in ("/", task_memcg) or task_memcg.startswith(oom_memcg + "/")


def _agreed(values: set[str | None] | set[str]) -> str | None:
    return next(iter(values)) if len(values) == 1 else None
