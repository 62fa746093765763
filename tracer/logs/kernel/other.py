# SPDX-License-Identifier: Apache-2.0
"""Other lines of a report that are worth keeping as text: they corroborate, no rule stands on them."""

import re

from tracer.events import LoggedOther
from tracer.logs.kernel.shape import Stamp, first_line

_FRAMES = (
    "mem_cgroup_out_of_memory|mem_cgroup_oom_synchronize|out_of_memory|oom_kill_process|pagefault_out_of_memory|"
    "__alloc_pages_slowpath|__alloc_pages_may_oom|moom_callback"
)
_MESSAGES = r"Memory cgroup out of memory|Out of memory(?: \(oom_kill_allocating_task\))?"
_LINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (about, re.compile(pattern, re.DOTALL))
    for about, pattern in (
        ("reaped", r"oom_reaper: (?:reaped process \d+ \(.*\), now anon-rss:.*|unable to reap pid:\d+ \(.*\)\s*)"),
        ("group_kill", r"Tasks in .+ are going to be killed due to memory\.oom\.group set"),
        (
            "no_killable",
            (
                r"Out of memory and no killable processes\.\.\.|(?:Kernel panic - not syncing: )?(?:"
                r"System is deadlocked on memory|Out of memory: (?:compulsory|system-wide) panic_on_oom is enabled)\s*"
                r"|Memory limit reached of cgroup .+"
            ),
        ),
        (
            "already_exiting",
            rf"(?:{_MESSAGES}): OOM victim \d+ \(.*\) is already exiting\. Skip killing the task",
        ),
        (
            "suppressed",
            r"(?:oom_kill_process|dump_header|mem_cgroup_out_of_memory|out_of_memory): \d+ callbacks suppressed",
        ),
        ("sysrq", r"(?:sysrq: )?(?:SysRq : )?Manual OOM execution|(?:sysrq: )?OOM request ignored\. No task eligible"),
        (
            "call_trace",
            rf"\s*(?:\[<[0-9a-f]+>\] )?(?:{_FRAMES})(?:\.[a-z0-9.]+)?\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?",
        ),
        # The driver found no memory for itself, of the device's or of the host's. CUDA's own failures print nothing.
        ("nvrm_no_memory", r"NVRM: .*\[NV_ERR_NO_MEMORY\].*"),
        (
            "report",
            (
                r"Task in .+ killed as a result of limit of .+"
                r"|Memory cgroup stats for .+"
                rf"|(?:{_MESSAGES}): Kill process \d+ \(.*\) score -?\d+ or sacrifice child"
                r"|Tasks state \(memory values in pages\):|Mem-Info:"
                r"|Node \d+ \S+ free:\d+kB (?:boost:\d+kB )?min:\d+kB low:\d+kB .*"
            ),
        ),
    )
)


def parse(text: str, stamp: Stamp) -> LoggedOther | None:
    """One of the lines above. A frame marked `?` in a trace is a guess of the kernel's, and is left out."""
    line = first_line(text)
    for about, pattern in _LINES:
        if pattern.fullmatch(line):
            return LoggedOther(about=about, **stamp.fields(text))
    return None
