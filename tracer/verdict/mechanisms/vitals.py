# SPDX-License-Identifier: Apache-2.0
"""What else was read of each process: pages that are locked, and what the kernel keeps for it."""

import msgspec

from tracer.attribution.tree import Member
from tracer.events import ProcessSample

STACK_BYTES = 16 * 1024
"""Of a thread in the kernel: THREAD_SIZE of x86-64 and arm64."""


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """At the last look, and since the picture begins."""

    locked_bytes: int = 0
    """VmLck and VmPin."""
    locked_grown_bytes: int = 0
    page_tables_grown_bytes: int = 0
    threads_grown: int = 0


def vitals(member: Member, from_ns: int, at_ns: int) -> Vitals | None:
    """`None`: they were not recorded."""
    begun_ns = max((e.ts_ns for e in member.execs if e.ts_ns <= at_ns), default=0)
    looks = [s for s in member.samples if begun_ns <= s.ts_ns <= at_ns and s.page_table_bytes is not None]
    if not looks:
        return None
    last, before = looks[-1], next((look for look in reversed(looks) if look.ts_ns <= from_ns), None)
    return Vitals(
        locked_bytes=_locked(last),
        locked_grown_bytes=_locked(last) - (_locked(before) if before is not None else 0),
        page_tables_grown_bytes=(last.page_table_bytes or 0)
        - ((before.page_table_bytes or 0) if before is not None else 0),
        threads_grown=(last.threads or 0) - ((before.threads or 0) if before is not None else 0),
    )


def _locked(sample: ProcessSample) -> int:
    return (sample.locked_bytes or 0) + (sample.pinned_bytes or 0)
