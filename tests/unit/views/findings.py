# SPDX-License-Identifier: Apache-2.0
"""Diagnoses and selftests to look at: root on a good machine, nobody, root in a container; both ends of a selftest."""

import msgspec

from tracer.doctor import kernel, rights, software
from tracer.doctor.model import Capability, Comparison, Diagnosis, HookAnswer, Selftest
from tracer.doctor.outlook import outlook
from tracer.doctor.reading import Places
from tracer.doctor.rights import Rights

ALL = (1 << 41) - 1
ROOT = Rights(uid=0, effective=ALL, bounding=ALL, initial_user_namespace=True, no_new_privileges=False, seccomp=False)
NOBODY = Rights(
    uid=1000, effective=0, bounding=ALL, initial_user_namespace=True, no_new_privileges=False, seccomp=False
)
HOOKS = (
    HookAnswer(name="raw_tracepoint:mark_victim", attached=True, required=True),
    HookAnswer(name="raw_tracepoint:sched_process_exit", attached=True, required=True),
    HookAnswer(name="fentry:oom_kill_process", attached=True, required=False),
)
HELD = kernel.Tried(HOOKS, 312_000_000)
DENIED = kernel.Tried(why_not="cannot load BPF programs", denied=True)
NOWHERE = Places(*["/nonexistent"] * 5)
GPU = Capability(id="gpu", name="NVIDIA GPU", ok="no", found="no driver", meaning="not watched yet", weight="note")


def witness(id_, name, ok, found, *, with_root=None, remedy=None):
    return Capability(
        id=id_, name=name, ok=ok, found=found, meaning="what it is for", links=(1, 2), weight="proof",
        remedy=remedy, with_root=with_root,
    )  # fmt: skip


def diagnosis(mine: Rights, tried: kernel.Tried, bcc: software.Asked, *more: Capability) -> Diagnosis:
    needs = [
        one
        for one in kernel.check(NOWHERE, mine, tried, bcc_with_root=True)
        if one.id in {"bpf_programs", "oom_decision"}
    ]
    python = software.check({"ID": "fedora"}, root=mine.root, asked=lambda: bcc)
    found = [*needs, *python, *more, *rights.check(mine), GPU]
    return Diagnosis(
        version="0.1.0", kernel_release="6.8.0-41-generic", machine="x86_64", distribution="Fedora Linux 41",
        uid=mine.uid, here=outlook(found, root=mine.root, asker_is_root=mine.root),
        with_root=None if mine.root else outlook(found, root=True, asker_is_root=False),
        capabilities=tuple(found), hooks=tried.hooks,
    )  # fmt: skip


AROUND = (
    witness("pid_namespace", "pid namespace", "yes", "the machine's own"),
    witness("time_namespace", "clocks", "yes", "not shifted by a time namespace"),
    witness("group_kill", "memory.oom.group", "yes", "not set above us"),
    witness("oom_count", "count of OOM kills", "yes", "of our cgroup, in its memory.events"),
)
NAMES = witness("kernel_symbols", "names of kernel functions", "yes", "__oom_kill_process has its address")
LOG = witness("kernel_log", "kernel log", "yes", "/dev/kmsg can be read")
NO_LOG = witness(
    "kernel_log", "kernel log", "no", "/dev/kmsg: Operation not permitted", with_root="yes", remedy="sudo sysctl x=0"
)
GOOD_BCC, NO_BCC = software.Asked("3.13", "0.31.0"), software.Asked("3.13", None, "No module named 'bcc'")
CONTAINER_PIDS = msgspec.structs.replace(
    witness("pid_namespace", "pid namespace", "no", "one of our own", remedy="docker run --pid=host"), weight="help"
)

DIAGNOSES = {
    "good": diagnosis(ROOT, HELD, GOOD_BCC, NAMES, LOG, *AROUND),
    "nobody": diagnosis(NOBODY, DENIED, NO_BCC, NO_LOG, *AROUND),
    "container": diagnosis(ROOT, HELD, GOOD_BCC, NAMES, LOG, CONTAINER_PIDS, *AROUND[1:]),
    "no_log": diagnosis(ROOT, kernel.Tried(HOOKS[:2], 1_000_000), GOOD_BCC, NAMES, NO_LOG, *AROUND),
}


def compared(run, what, expected, found=None) -> Comparison:
    found = expected if found is None else found
    return Comparison(run=run, what=what, expected=expected, found=found, agrees=found == expected)


AGREEING = (
    compared("kill", "cause", "host_oom_cgroup"),
    compared("kill", "strength", "proved"),
    compared("kill", "OOM kills in its cgroup", "1"),
    compared("control", "cause", "exited"),
)
SELFTESTS = {
    "agrees": Selftest(version="0.1.0", kernel_release="6.8.0", cgroup_version=2, comparisons=AGREEING),
    "disagrees": Selftest(
        version="0.1.0", kernel_release="6.8.0", cgroup_version=2,
        comparisons=(*AGREEING[:2], compared("kill", "OOM kills in its cgroup", "1", "0"), AGREEING[3]),
        caveats=("Lost in all: 1 oom_mark.",), recording="/home/u/kill.oomtrace",
    ),
}  # fmt: skip
