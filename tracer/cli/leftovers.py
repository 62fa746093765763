# SPDX-License-Identifier: Apache-2.0
"""What still runs in the job's cgroup after the job's end: named, for a person to decide. Ends nothing."""

import os
from collections.abc import Sequence

from tracer.errors import OomtraceError
from tracer.job.cgroup import JobCgroup
from tracer.masking import mask_arguments
from tracer.pseudofiles import read_bytes
from tracer.sources.procfs import text_of

NAMED = 20
COMMAND_CHARS = 60


def left_in(cgroup: JobCgroup, patience_s: float) -> str | None:
    """Remove the job's cgroup; what is to be said about it."""
    try:
        left = cgroup.remove(patience_s=patience_s)
    except OomtraceError as error:
        return str(error)
    if not left:
        return None
    path = text_of(os.fsencode(cgroup.path or ""))
    return f"processes of the job still ran in {path} after its end: {names_of(left)}"


def names_of(pids: Sequence[int], *, proc_root: str = "/proc") -> str:
    """`4711 (sleep 60), 4712 (python3)`, a bounded number of them."""
    named = ", ".join(_name(pid, proc_root) for pid in pids[:NAMED])
    return named if len(pids) <= NAMED else f"{named} and {len(pids) - NAMED} more"


def _name(pid: int, proc_root: str) -> str:
    raw = read_bytes(f"{proc_root}/{pid}/cmdline") or b""
    arguments = [text_of(word) for word in raw.rstrip(b"\0").split(b"\0")] if raw.strip(b"\0") else []
    if arguments:
        arguments[0] = os.path.basename(arguments[0]) or arguments[0]
    # A kernel thread, a process that has just ended or one that hides: at least the name that the kernel has.
    command = " ".join(mask_arguments(arguments)) or text_of((read_bytes(f"{proc_root}/{pid}/comm") or b"").strip())
    if len(command) > COMMAND_CHARS:
        command = command[: COMMAND_CHARS - 3] + "..."
    return f"{pid} ({command})" if command else f"{pid}"
