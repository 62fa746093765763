# SPDX-License-Identifier: Apache-2.0
"""What services and clusters write of processes that ended: systemd, OOM daemons, runtimes, Kubernetes, Slurm.

A line is known by its wording, wherever it stands in a line: most of these stand behind prefixes of many kinds. What
merely sounds like a kill (`Considered 5 cgroups for killing`, `"OOMKilled": false`) is none.
"""

from tracer.events import ReportedLine
from tracer.logs.late import by_root, candidates
from tracer.logs.reports import clusters, daemons, services
from tracer.logs.reports.shape import TEXT_CHARS, Rule
from tracer.masking import mask_fields, mask_line

KINDS: dict[str, str] = {
    "daemon_kill": "an OOM daemon ended a process or a cgroup",
    "unit_oom": "systemd saw the OOM killer in a unit",
    "unit_killed": "the main process of a unit was killed",
    "service_kills": "a service manager killed a process",
    "container_oom": "a container runtime saw the OOM killer in a container",
    "container_kill": "a container was sent a signal",
    "not_oom_killed": "a container is not marked as killed for want of memory, which proves nothing",
    "exit_137": "a container ended with 128 + a signal",
    "system_oom": "the kubelet saw the OOM killer on its node",
    "evicted": "the kubelet evicted a pod for want of memory",
    "step_oom": "a scheduler saw the OOM killer in a step",
    "poll_kill": "a scheduler ended a job over its memory limit, by its own count",
    "cancelled": "a scheduler ended a job",
    "crash": "the kernel saw a program crash",
}
"""What `ReportedLine.about` can be."""

_RULES: tuple[Rule, ...] = (*daemons.RULES, *services.RULES, *clusters.RULES)

_ROOTS = (
    "kill", "memory", "xit", "led ", "task", "term_m", "system", "sendin", "out_of", "traps:", "contai", "low on",
    "segfau", "due to",
)  # fmt: skip
"""In lower case each needle has one of these."""
_BY_ROOT = by_root(_ROOTS, (rule.needle.lower() for rule in _RULES))


def parse(text: str) -> ReportedLine | None:
    """What a line says; `None`: nothing of the kind."""
    for place in candidates(_BY_ROOT, text.lower()):
        rule = _RULES[place]
        if rule.needle in text:
            match = rule.pattern.search(text)
            told = None if match is None else rule.build(match)
            if told is not None:
                shown = mask_line(text.strip())[:TEXT_CHARS]
                return ReportedLine(ts_ns=0, source="text", text=shown, **mask_fields(told))
    return None


__all__ = ["KINDS", "parse"]
