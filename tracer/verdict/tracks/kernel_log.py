# SPDX-License-Identifier: Apache-2.0
"""What the kernel's log said near a moment, as it was read."""

from tracer.events import LogEvent
from tracer.units import NS_PER_S
from tracer.verdict.story import Story
from tracer.verdict.tracks.model import KernelLine

BEFORE_NS, AFTER_NS = 5 * NS_PER_S, 10 * NS_PER_S
MOST_LINES = 200


def kernel_lines(story: Story, at_ns: int | None) -> tuple[KernelLine, ...]:
    """In the log's own order; where there are very many, those nearest to the moment."""
    near = [event for event in story.of(LogEvent) if event.text]
    if at_ns is not None:
        near = [event for event in near if -BEFORE_NS <= event.ts_ns - at_ns <= AFTER_NS]
        near = sorted(near, key=lambda event: abs(event.ts_ns - at_ns))
    shown = sorted(near[:MOST_LINES], key=lambda event: (event.log_seq or 0, event.seq))
    return tuple(KernelLine(stamp_usec=one.log_usec, text=one.text, trusted=one.trusted) for one in shown)
