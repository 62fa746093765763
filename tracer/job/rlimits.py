# SPDX-License-Identifier: Apache-2.0
"""Resource limits (setrlimit(2)): those of the caller bind the job, and must not blind or end the tracer."""

import contextlib
import resource
from collections.abc import Mapping

Rlimits = Mapping[int, tuple[int, int]]
"""Resource to soft and hard limit."""

# Open files (a descriptor a hook), address space and data (LLVM maps a lot of both), CPU time (days of watching).
# The size of files is not among them: the recording keeps to what the caller allows.
_RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_CPU)
_ENOUGH_FILES = 4096
"""Three are kept of each process whose memory is sampled."""
_NAME_WIDTH = 26
_NAMES = {
    "Max cpu time": resource.RLIMIT_CPU,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max data size": resource.RLIMIT_DATA,
    "Max stack size": resource.RLIMIT_STACK,
    "Max core file size": resource.RLIMIT_CORE,
    "Max resident set": resource.RLIMIT_RSS,
    "Max processes": resource.RLIMIT_NPROC,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max locked memory": resource.RLIMIT_MEMLOCK,
    "Max address space": resource.RLIMIT_AS,
    "Max pending signals": resource.RLIMIT_SIGPENDING,
    "Max msgqueue size": resource.RLIMIT_MSGQUEUE,
    "Max nice priority": resource.RLIMIT_NICE,
    "Max realtime priority": resource.RLIMIT_RTPRIO,
    "Max realtime timeout": resource.RLIMIT_RTTIME,
}
"""As fs/proc/base.c spells them."""


def read_rlimits(proc_root: str, pid: int) -> Rlimits:
    """Those of another process; those that cannot be read are left out."""
    try:
        with open(f"{proc_root}/{pid}/limits", encoding="ascii", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return {}
    found: dict[int, tuple[int, int]] = {}
    for line in lines:
        kind = _NAMES.get(line[:_NAME_WIDTH].strip())
        words = line[_NAME_WIDTH:].split()
        if kind is not None and len(words) > 1:
            with contextlib.suppress(ValueError):
                found[kind] = (_value(words[0]), _value(words[1]))
    return found


def raise_rlimits() -> Rlimits:
    """Raise those of this process as far as it may; what the job, which inherits them, is to get instead."""
    before: dict[int, tuple[int, int]] = {}
    for kind in _RAISED:
        soft, hard = resource.getrlimit(kind)
        enough = _ENOUGH_FILES if kind == resource.RLIMIT_NOFILE else resource.RLIM_INFINITY
        if _reaches(soft, enough):
            continue
        for wanted in ((enough, enough if not _reaches(hard, enough) else hard), (hard, hard)):
            # The hard limit is for CAP_SYS_RESOURCE alone.
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, wanted)
                before[kind] = (soft, hard)
                break
    return before


def set_rlimits(rlimits: Rlimits) -> None:
    """Set those of this process. One that it may not raise stays as it is; to lower one is always allowed."""
    for kind, values in rlimits.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, values)


def _reaches(limit: int, enough: int) -> bool:
    return limit == resource.RLIM_INFINITY or (enough != resource.RLIM_INFINITY and limit >= enough)


def _value(word: str) -> int:
    return resource.RLIM_INFINITY if word == "unlimited" else int(word)
