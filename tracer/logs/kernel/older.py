# SPDX-License-Identifier: Apache-2.0
"""Lines that say who asked, whose limit it was and who was chosen; most of them in the words of 4.18 and older.

The live reader keeps these as text (`other`): on the kernels that it runs on, `decision` says the same.
"""

import re

from tracer.events import LogEvent, LoggedChoice, LoggedGroupKill, LoggedOwner, LoggedReaped, LoggedTrigger
from tracer.logs.kernel.shape import KB, PID, Stamp, kib, name, number

_OWNER = re.compile(r"Task in (?P<middle>/.*)", re.DOTALL)
_OWNER_KEY = " killed as a result of limit of "
_CHOICE = re.compile(
    r"(?:(?P<head>Memory cgroup out of memory|Out of memory)(?P<allocating> \(oom_kill_allocating_task\))?: )?"
    rf"Kill process (?P<pid>{PID}) \((?P<comm>.*)\) score (?P<score>-?\d{{1,10}}) or sacrifice child",
    re.DOTALL,
)
# 6.12 has UID before PID; 2.6.32 has `Pid: N, comm: C Not tainted VERSION`. What is between comm and version is a
# fixed word or flags: comm may hold either, and is greedy.
_CPU = re.compile(
    rf"CPU: \d{{1,5}} (?:UID: (?P<uid>{PID}) )?PID: (?P<pid>{PID}) Comm: (?P<comm>.+) "
    r"(?:Not tainted|Tainted:[ A-Z]{1,40}(?:[^\s,]{1,60})?|Kdump: loaded (?:Not tainted|Tainted:[ A-Z]{1,40}))"
    r" +(?P<release>[0-9]+\.[0-9]+\S{0,64})(?: .*)?",
    re.DOTALL,
)
_OLD_CPU = re.compile(
    rf"Pid: (?P<pid>{PID}), comm: (?P<comm>.+) (?:Not tainted|Tainted:[ A-Z]{{1,40}}) +"
    r"(?P<release>[0-9]+\.[0-9]+\S{0,64})(?: .*)?",
    re.DOTALL,
)
_CPUSET = re.compile(r"(?P<comm>.+) cpuset=(?P<cpuset>\S+) mems_allowed=[0-9,-]+", re.DOTALL)
_GROUP = re.compile(r"Tasks in (?P<memcg>/.*) are going to be killed due to memory\.oom\.group set", re.DOTALL)
_REAPED = re.compile(
    rf"oom_reaper: reaped process (?P<pid>{PID}) \((?P<comm>.*)\),? now anon-rss:(?P<anon>{KB})[kl]B, "
    rf"file-rss:(?P<file>{KB})[kl]B(?:, shmem-rss:(?P<shmem>{KB})[kl]B)?",
    re.DOTALL,
)


def parse(text: str, stamp: Stamp) -> LogEvent | None:
    """One of the lines above, whole."""
    for read in (_owner, _choice, _trigger, _group, _reaped):
        event = read(text, stamp)
        if event is not None:
            return event
    return None


def _owner(text: str, stamp: Stamp) -> LoggedOwner | None:
    found = _OWNER.fullmatch(text)
    if found is None or _OWNER_KEY not in found["middle"]:
        return None
    parts = found["middle"].split(_OWNER_KEY)
    if len(parts) != 2 or not parts[1].startswith("/"):  # a path that has the words itself, or a line that was cut
        return LoggedOwner(**stamp.fields(text))
    task, owner = parts
    inside = owner in ("/", task) or task.startswith(owner + "/")
    return LoggedOwner(
        oom_memcg=name(owner, stamp) if inside else None, task_memcg=name(task, stamp), **stamp.fields(text)
    )


def _choice(text: str, stamp: Stamp) -> LoggedChoice | None:
    found = _CHOICE.fullmatch(text)
    if found is None:
        return None
    return LoggedChoice(
        pid=int(found["pid"]),
        comm=name(found["comm"], stamp),
        score=int(found["score"]),
        memcg=None if found["head"] is None else found["head"].startswith("Memory"),
        allocating_task=found["allocating"] is not None,
        **stamp.fields(text),
    )


def _trigger(text: str, stamp: Stamp) -> LoggedTrigger | None:
    found = _CPU.fullmatch(text) or _OLD_CPU.fullmatch(text)
    if found is not None:
        uid = found.groupdict().get("uid")
        return LoggedTrigger(
            comm=name(found["comm"], stamp),
            pid=int(found["pid"]),
            uid=number(uid),
            release=found["release"],
            **stamp.fields(text),
        )
    found = _CPUSET.fullmatch(text)
    if found is None:
        return None
    return LoggedTrigger(comm=name(found["comm"], stamp), cpuset=name(found["cpuset"], stamp), **stamp.fields(text))


def _group(text: str, stamp: Stamp) -> LoggedGroupKill | None:
    found = _GROUP.fullmatch(text)
    return None if found is None else LoggedGroupKill(memcg=name(found["memcg"], stamp), **stamp.fields(text))


def _reaped(text: str, stamp: Stamp) -> LoggedReaped | None:
    found = _REAPED.fullmatch(text)
    if found is None:
        return None
    return LoggedReaped(
        pid=int(found["pid"]),
        comm=name(found["comm"], stamp),
        anon_rss_bytes=kib(found["anon"]),
        file_rss_bytes=kib(found["file"]),
        shmem_rss_bytes=kib(found["shmem"]),
        **stamp.fields(text),
    )
