# SPDX-License-Identifier: Apache-2.0
"""Programs that end others before the kernel has to: earlyoom, systemd-oomd, nohang, kubelet's eviction in clusters."""

from tracer.logs.reports.shape import CGROUP, PID, UNIT, Rule, rule

_COMM = r'"(?P<comm>[^"\n]{1,64})"'

RULES: tuple[Rule, ...] = (
    rule(
        "sending SIG",
        rf"\bsending (?P<sig>SIG(?:TERM|KILL)) to process (?P<pid>{PID}) (?:uid \d{{1,10}} )?{_COMM}",
        "daemon_kill",
        "earlyoom",
    ),
    rule(
        "killing process ",
        rf"\bkilling process (?P<pid>{PID}) {_COMM} with signal (?P<sig>\d{{1,2}})",
        "daemon_kill",
        "earlyoom",
    ),
    rule("killing process: ", rf"\bkilling process: (?P<pid>{PID}) {_COMM}", "daemon_kill", "earlyoom"),
    rule(
        "due to memory ",
        rf"\bKilled (?P<cgroup>{CGROUP}) due to memory (?:pressure for|used) ",
        "daemon_kill",
        "systemd-oomd",
        signal=9,
    ),
    rule(
        "systemd-oomd killed ",
        rf"(?P<unit>{UNIT}): systemd-oomd killed \d{{1,7}} process\(es\) in this unit",
        "daemon_kill",
        "systemd-oomd",
        signal=9,
    ),
    rule(
        "oomd attempting to kill ",
        rf"oomd attempting to kill (?P<pid>{PID}) with (?P<sig>KILL|TERM)\b",
        "daemon_kill",
        "systemd-oomd",
    ),
    rule(
        "Sending SIG",
        rf"Sending (?P<sig>SIG(?:TERM|KILL)) to the victim: \[(?P<pid>{PID})\] (?P<comm>[^\n]{{1,15}})",
        "daemon_kill",
        "nohang",
    ),
)
