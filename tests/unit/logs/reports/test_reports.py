# SPDX-License-Identifier: Apache-2.0
"""Lines of services, schedulers and clusters: what each says, and what only sounds like it."""

import pytest

from tracer.logs.reports import KINDS, parse

ID = "3f2a91b0c1d2" * 5 + "abcd"
LINES = (
    ('earlyoom[9]: sending SIGTERM to process 42 "python3": badness 911, VmRSS 60000 MiB', "daemon_kill", 42, 15),
    ('sending SIGKILL to process 42 uid 1000 "a b": oom_score 911, VmRSS 6 MiB, cmdline "x"', "daemon_kill", 42, 9),
    ('killing process 42 "python3" with signal 15: badness 911, VmRSS 60000 MiB', "daemon_kill", 42, 15),
    ("systemd-oomd[8]: Killed /a/b.scope due to memory used (60) / total (64) and swap used (8) / total (8) being more "
     "than 90.00%", "daemon_kill", None, 9),
    ("oomd attempting to kill 42 with KILL", "daemon_kill", 42, 9),
    ("run-u9.scope: systemd-oomd killed 5 process(es) in this unit.", "daemon_kill", None, 9),
    ("train.service: A process of this unit has been killed by the OOM killer.", "unit_oom", None, None),
    ("train.service: Failed with result 'oom-kill'.", "unit_oom", None, None),
    ("train.service: Main process exited, code=killed, status=9/KILL", "unit_killed", None, 9),
    ("train.service: Killing process 42 (python3) with signal SIGKILL.", "service_kills", 42, 9),
    (f'level=info msg="TaskOOM event container_id:\\"{ID}\\""', "container_oom", None, None),
    (f"TaskOOM event &TaskOOM{{ContainerID:{ID},XXX_unrecognized:[],}}", "container_oom", None, None),
    (f"2026-11-30T17:25:58Z container oom {ID} (image=x, name=train)", "container_oom", None, None),
    (f"2026-11-30T17:25:58Z container kill {ID} (image=x, name=train, signal=9)", "container_kill", None, 9),
    ("msg=event topic=/tasks/oom type=containerd.events.TaskOOM", "container_oom", None, None),
    ('  "OOMKilled": true,', "container_oom", None, None),
    ('  "OOMKilled": false,', "not_oom_killed", None, None),
    ("      Reason:       OOMKilled", "container_oom", None, None),
    ("trainer-0   0/1     OOMKilled   3 (30s ago)   5m", "container_oom", None, None),
    ("      Exit Code:    137", "exit_137", None, None),
    ('"exitCode": 137,', "exit_137", None, None),
    ("Warning  SystemOOM  kubelet  System OOM encountered, victim process: python3, pid: 42", "system_oom", 42, None),
    ("The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.", "evicted", None, None),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=88.0. Some of the step tasks have been OOM Killed.",
     "step_oom", None, None),
    ("slurmstepd-n1: error: Detected 2 oom-kill event(s) in step 88.batch cgroup.", "step_oom", None, None),
    ("srun: error: node-17: task 0: Out Of Memory", "step_oom", None, None),
    ("88.batch  OUT_OF_ME+   0:125", "step_oom", None, None),
    ("slurmstepd: error: Job 7 exceeded memory limit (8392 > 8388), being killed", "poll_kill", None, None),
    ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "poll_kill", None, None),
    ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-30T17:25:59 DUE TO TIME LIMIT ***", "cancelled", None,
     None),
    ("oom: Memory cgroup out of memory: killed 1 task on node-17.", "step_oom", None, None),
    ("python3[42]: segfault at 0 ip 00007f sp 00007f error 4 in libfoo.so[7f+1000]", "crash", 42, 11),
)  # fmt: skip
NOTHING = (
    "systemd-oomd[8]: Considered 9 cgroups for killing, top candidates were:",
    "earlyoom[9]: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%",
    "earlyoom[9]: mem avail: 60000 of 64000 MiB (93%), swap free: 0 of 0 MiB (0%)",
    "The node was low on resource: ephemeral-storage.",
    "train.service: Deactivated successfully.",
    "train.service: Main process exited, code=exited, status=1/FAILURE",
    "Exit Code:    1",
    "Exit Code:    0",
    "Reason:       Completed",
    "oomScoreAdj: 985",
    '"oomKillDisable": false',
    "slurmstepd: error: acct_gather_energy/rapl: memory",
    "we will be OOMKilled some day",
    "88.batch  COMPLETED   0:0",
)


@pytest.mark.parametrize("text, about, pid, signal", LINES, ids=lambda value: str(value)[:40])
def test_a_line_says_what_it_says(text, about, pid, signal):
    line = parse(text)

    assert line is not None
    assert (line.about, line.pid, line.signal) == (about, pid, signal)


@pytest.mark.parametrize("text", NOTHING)
def test_what_only_sounds_like_a_kill_is_none(text):
    assert parse(text) is None


def test_each_kind_is_told_by_some_line():
    assert {about for _, about, _, _ in LINES} == set(KINDS)


def test_a_long_line_takes_no_long_time():
    assert parse("TaskOOM " * 600 + "container=" * 300 + "{" * 400) is None
