# SPDX-License-Identifier: Apache-2.0
"""Resource limits that the caller set for the job: they bind the job, and must not blind or end the tracer."""

import contextlib
import resource
from collections.abc import Mapping

Limits = dict[int, tuple[int, int]]
"""What was there before: resource to soft and hard limit."""

# Open files (a descriptor a hook), address space and data (LLVM maps a lot of both), CPU time (days of watching).
# The size of files is not among them: the recording keeps to what the caller allows.
_RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_CPU)
_ENOUGH_FILES = 1024


def raise_limits() -> Limits:
    """Raise those of this process as far as it may; what is to be given back to the job."""
    before: Limits = {}
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


def give_back(pid: int, limits: Mapping[int, tuple[int, int]]) -> str | None:
    """Give a process that was forked from this one what it would have had without us.

    Returns:
        what went wrong, one line.
    """
    try:
        for kind, pair in limits.items():
            resource.prlimit(pid, kind, pair)
    except OSError as error:
        return f"the job's resource limits could not be set back: {error.strerror}"
    return None


def _reaches(limit: int, enough: int) -> bool:
    return limit == resource.RLIM_INFINITY or (enough != resource.RLIM_INFINITY and limit >= enough)
