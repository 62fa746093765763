# SPDX-License-Identifier: Apache-2.0
"""Kubernetes, Slurm, LSF, Flux and clouds, in the words of their own logs and tools."""

from tracer.logs.reports.shape import PID, Rule, rule

_STEP = r"(?:StepId=|[Ss]tep )(?P<slurm_job>\d{1,10})(?:[._+][\w.+]{1,30})?"

RULES: tuple[Rule, ...] = (
    rule(
        "OOMKilling",
        rf"\bOOMKilling\b[^\n]{{0,300}}?\bKilled process (?P<pid>{PID}) \((?P<comm>[^\n)]{{1,15}})\)",
        "system_oom",
        "node-problem-detector",
    ),
    # Whom it chose; a child of that one may have been killed instead.
    rule(
        "OOMKilling", r"\bOOMKilling\b[^\n]{0,200}?ut of memory: Kill process ", "system_oom", "node-problem-detector"
    ),
    rule(
        "SystemOOM",
        rf"victim process: (?P<comm>[^,\n]{{1,64}}), pid: (?P<pid>{PID})",
        "system_oom",
        "kubelet",
    ),
    rule("OOMKilled", r'(?:[Rr]eason"?:|status|STATUS)\s{0,20}"?OOMKilled\b', "container_oom", "kubernetes"),
    rule("OOMKilled", r"^\S{1,253}(?:\s{1,30}\d{1,3}/\d{1,3})?\s{1,30}OOMKilled\b", "container_oom", "kubernetes"),
    rule(
        "low on resource: ",
        r"The node was low on resource: memory\b",
        "evicted",
        "kubelet",
    ),
    rule("xit", r"Exit Code:\s{1,20}(?P<exit_code>137|143|139|134)\b", "exit_137", "kubernetes"),
    rule("xitCode", r'"?[eE]xitCode"?:\s{0,4}(?P<exit_code>137|143|139|134)\b', "exit_137", "kubernetes"),
    rule(
        "oom_kill event",
        rf"Detected \d{{1,6}} oom_kill events? in {_STEP}",
        "step_oom",
        "slurm",
    ),
    rule("oom-kill event", rf"Detected \d{{1,6}} oom-kill event\(s\) in {_STEP}", "step_oom", "slurm"),
    rule(": Out Of Memory", r"srun: error: [\w.-]{1,64}: tasks? [\d,-]{1,64}: Out Of Memory", "step_oom", "slurm"),
    rule("OUT_OF_ME", r"\bOUT_OF_ME(?:M?\+|MORY)(?:\s|$)", "step_oom", "slurm"),
    rule(
        "exceeded memory limit",
        r"(?:Job |StepId=)(?P<slurm_job>\d{1,10})[\w.]{0,30} exceeded memory limit "
        r"\([\d.]{1,16} > [\d.]{1,16}\), being killed",
        "poll_kill",
        "slurm",
    ),
    rule("Exceeded job memory limit", r"Exceeded job memory limit at some point", "poll_kill", "slurm"),
    rule("TERM_MEMLIMIT", r"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", "poll_kill", "lsf"),
    rule("DUE TO", r"CANCELLED AT [\dT:-]{8,32} DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)", "cancelled", "slurm"),
    rule(
        "CANCELLED AT",
        r"(?:JOB|STEP) (?P<slurm_job>\d{1,10})[\w.]{0,30} ON [\w.-]{1,64} CANCELLED AT",
        "cancelled",
        "slurm",
    ),
    rule("killed 1 task", r"oom: Memory cgroup out of memory: killed \d{1,6} tasks? on ", "step_oom", "flux"),
    rule(
        "ran out-of-memory",
        r"The replica [\w-]{1,32} \d{1,6} ran out-of-memory and exited with a non-zero status of ",
        "container_oom",
        "vertex-ai",
    ),
)
