# SPDX-License-Identifier: Apache-2.0
"""systemd, container runtimes, and what the kernel says of programs that crash."""

from tracer.logs.reports.shape import HASH, PID, UNIT, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "killed by the OOM killer",
        rf"(?P<unit>{UNIT}): A process of this unit has been killed by the OOM killer",
        "unit_oom",
        "systemd",
    ),
    rule("Failed with result", rf"(?P<unit>{UNIT}): Failed with result 'oom-kill'", "unit_oom", "systemd"),
    rule(
        "Main process exited",
        rf"(?P<unit>{UNIT}): Main process exited, code=(?:killed|dumped), status=(?P<sig>\d{{1,2}})/",
        "unit_killed",
        "systemd",
    ),
    rule(
        "Killing process ",
        rf"(?P<unit>{UNIT}): Killing process (?P<pid>{PID}) \((?P<comm>[^\n]{{1,15}})\) "
        r"with signal (?P<sig>SIG[A-Z]{2,6})",
        "service_kills",
        "systemd",
    ),
    rule("TaskOOM", rf'TaskOOM[^\n]{{0,80}}?container_id:\\?"(?P<container>{HASH})', "container_oom", "containerd"),
    rule("TaskOOM", rf"TaskOOM[^\n]{{0,20}}\{{ContainerID:(?P<container>{HASH})", "container_oom", "containerd"),
    rule(
        "/tasks/oom", rf"(?:container=(?P<container>{HASH})[^\n]{{0,200}})?topic=/tasks/oom", "container_oom", "docker"
    ),
    rule("container oom ", rf"\bcontainer oom (?P<container>{HASH})\b", "container_oom", "docker"),
    rule(
        "container kill ",
        rf"\bcontainer kill (?P<container>{HASH})\b[^\n]{{0,400}}?\bsignal=(?P<sig>\d{{1,2}})",
        "container_kill",
        "docker",
    ),
    rule("OOMKilled", r'"OOMKilled":\s?true', "container_oom", "docker"),
    rule(
        "OOMKilled",
        r'"OOMKilled":\s?false[^\n]{0,200}?"ExitCode":\s?(?P<exit_code>13[479]|143)\b',
        "exit_137",
        "docker",
    ),
    rule("OOMKilled", r'"OOMKilled":\s?false', "not_oom_killed", "docker"),
    rule(
        "segfault at ",
        rf"\b(?P<comm>[^\s\[][^\[\n]{{0,14}})\[(?P<pid>{PID})\]: segfault at ",
        "crash",
        "kernel",
        signal=11,
    ),
    rule(
        "traps: ",
        rf"traps: (?P<comm>[^\[\n]{{1,15}})\[(?P<pid>{PID})\] (?:general protection|trap invalid opcode)",
        "crash",
        "kernel",
    ),
)
