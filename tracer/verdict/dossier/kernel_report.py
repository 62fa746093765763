# SPDX-License-Identifier: Apache-2.0
"""What the kernel's log said near an incident, as it was read."""

from tracer.events import LogEvent, LoggedTasks
from tracer.units import NS_PER_S
from tracer.verdict.dossier.model import KernelLine, KernelReport
from tracer.verdict.story import Story

BEFORE_NS = 5 * NS_PER_S
AFTER_NS = 10 * NS_PER_S
MOST_LINES = 200
MOST_TASKS = 60


def kernel_report(story: Story, at_ns: int | None) -> KernelReport:
    """Records near `at_ns`, in the kernel's own order; those nearest where there are very many."""
    said = [event for event in story.of(LogEvent) if event.text]
    near = said
    if at_ns is not None:
        near = [event for event in said if -BEFORE_NS <= event.ts_ns - at_ns <= AFTER_NS]
        near = sorted(near, key=lambda event: abs(event.ts_ns - at_ns))
    shown = sorted(near[:MOST_LINES], key=lambda event: (event.log_seq or 0, event.seq))
    lines = tuple(
        KernelLine(seq=e.seq, at_ns=e.ts_ns, stamp_usec=e.log_usec, text=e.text, trusted=e.trusted) for e in shown
    )
    tables = [e for e in story.of(LoggedTasks) if at_ns is None or abs(e.ts_ns - at_ns) <= AFTER_NS]
    nearest = min(tables, key=lambda e: abs(e.ts_ns - (at_ns or 0)), default=None)
    page_bytes = story.header.page_bytes if story.header is not None else 4096
    return KernelReport(lines=lines, left_out=len(said) - len(lines), tasks=nearest, page_bytes=page_bytes)
