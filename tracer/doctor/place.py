# SPDX-License-Identifier: Apache-2.0
"""Where a recording would be written: the current folder and its room; and the wall clock that stamps it."""

import os
import time
from collections.abc import Callable, Iterable

from tracer.doctor.model import Answer, Capability
from tracer.job.identity import Caller
from tracer.rights import acting_as
from tracer.units import MIB, NS_PER_S, format_bytes

ROOM_BYTES = 64 * MIB
"""Days of a run, as a rule."""
NOT_BEFORE_NS = 1_704_067_200 * NS_PER_S
"""2024: a clock that says less was never set."""


def check(caller: Caller, folder: str = ".", *, realtime_ns: Callable[[], int] = time.time_ns) -> Iterable[Capability]:
    """With the caller's rights, as the recording itself is made."""
    yield _folder(caller, folder)
    yield _clock(realtime_ns())


def _folder(caller: Caller, folder: str) -> Capability:
    ok: Answer = "yes"
    try:
        with acting_as(caller.uid, caller.gid, caller.groups):
            writable = os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
            stats = os.statvfs(folder)
        free_bytes = stats.f_bavail * stats.f_frsize
        found = f"{format_bytes(free_bytes)} free"
        if not writable:
            ok, found = "no", f"user {caller.uid} cannot write here"
        elif free_bytes < ROOM_BYTES:
            ok = "no"
    except OSError as error:
        ok, found = "no", error.strerror or str(error)
    return Capability(
        id="folder",
        name="this folder",
        ok=ok,
        found=found,
        meaning="where the recording goes; when the disk is full the job goes on, and the loss is said",
        remedy=None if ok == "yes" else "cd to another folder, or run --record FILE",
    )


def _clock(now_ns: int) -> Capability:
    ok: Answer = "yes" if now_ns >= NOT_BEFORE_NS else "no"
    return Capability(
        id="clock",
        name="wall clock",
        ok=ok,
        found="set" if ok == "yes" else "was never set",
        meaning="the times of day in a report; order and spans rest on another clock",
        weight="note",
        remedy=None if ok == "yes" else "sudo timedatectl set-ntp true",
    )
