# SPDX-License-Identifier: Apache-2.0
"""`Killed process N (comm) ...`: the kill itself, the one line that is never rate-limited."""

import re

from tracer.events import LoggedKill
from tracer.logs.kernel.shape import KB, PID, Stamp, kib, name, number

# comm may hold anything, ") total-vm:1kB" included: greedy, and the whole tail must follow up to the end.
# The parts of the tail by version: shmem-rss from 4.5, UID, pgtables and oom_score_adj from 5.4.
_TAIL = (
    rf"total-vm:(?P<total>{KB})kB, anon-rss:(?P<anon>{KB})kB, file-rss:(?P<file>{KB})kB"
    rf"(?:, shmem-rss:(?P<shmem>{KB})kB)?"
    rf"(?:, UID:(?P<uid>{PID}))?(?: pgtables:(?P<pgtables>{KB})kB)?(?: oom_score_adj:(?P<adj>-?\d{{1,5}}))?"
)
_HEAD = r"(?:(?P<head>Memory cgroup out of memory|Out of memory)(?P<allocating> \(oom_kill_allocating_task\))?: )?"
_LINES = (
    re.compile(rf"{_HEAD}Killed process (?P<pid>{PID}) \((?P<comm>.*)\) {_TAIL}", re.DOTALL),
    # The last kernels of RHEL 7, then those of RHEL 6.
    re.compile(rf"{_HEAD}Killed process (?P<pid>{PID}) \((?P<comm>.*)\), UID (?P<rhel_uid>{PID}), {_TAIL}", re.DOTALL),
    re.compile(rf"{_HEAD}Killed process (?P<pid>{PID}), UID (?P<rhel_uid>{PID}), \((?P<comm>.*)\) {_TAIL}", re.DOTALL),
)


def parse(text: str, stamp: Stamp) -> LoggedKill | None:
    """The kill; the "Kill process" before it on 5.0 and older is none (it may choose a parent)."""
    if "Killed process " not in text:
        return None
    for line in _LINES:
        found = line.fullmatch(text)
        if found is not None:
            return _event(text, stamp, found)
    return None


def _event(text: str, stamp: Stamp, found: re.Match[str]) -> LoggedKill:
    head, part = found["head"], found.groupdict()
    return LoggedKill(
        pid=int(found["pid"]),
        comm=name(found["comm"], stamp),
        memcg=None if head is None else head.startswith("Memory"),
        allocating_task=found["allocating"] is not None,
        total_vm_bytes=kib(found["total"]),
        anon_rss_bytes=kib(found["anon"]),
        file_rss_bytes=kib(found["file"]),
        shmem_rss_bytes=kib(found["shmem"]),
        pgtables_bytes=kib(found["pgtables"]),
        uid=number(part.get("rhel_uid") or found["uid"]),
        oom_score_adj=number(found["adj"]),
        **stamp.fields(text),
    )
