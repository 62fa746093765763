# SPDX-License-Identifier: Apache-2.0
"""Kernel stacks at marks, as names of functions."""

from tracer.events import KernelStack
from tracer.verdict.story import Story

KILL_PATH = "__oom_kill_process"


def frames_at(story: Story, ts_ns: int, tgid: int) -> tuple[str, ...] | None:
    """The stack that was sent with a mark, innermost first; `None`: not observed, or without names."""
    stacks = story.by(KernelStack, lambda s: (s.mark_ts_ns, s.tgid), "mark").get((ts_ns, tgid), ())
    stack = next(iter(stacks), None)
    names = stack.functions if stack is not None else ()
    # Frames without names prove nothing, neither presence nor absence.
    return (
        names if any(name.startswith(("mark_oom_victim", "oom_", "__oom", "out_of_memory")) for name in names) else None
    )
