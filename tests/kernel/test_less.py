# SPDX-License-Identifier: Apache-2.0
"""Machines that allow less: the job runs as it would, one line says why, and the verdict is as strong as it can be.

The kill is real every time, the machine a lesser one: something covered in a mount namespace, a right dropped.
"""

import signal
from pathlib import Path

import pytest

from tests.kernel.less import (
    CAPS,
    HOG,
    LIMITED,
    NO_LOG,
    NO_SYSLOG,
    NOBODY,
    SECCOMP,
    Less,
    another_bcc,
    bcc_folder,
    bcc_library,
    cover,
    log_is_read,
    patient_hog,
    rungs,
    said,
    symbols_are_seen,
)
from tests.kernel.workload import V1
from tracer.events import HookStatus, JobStarted, LoggedDecision
from tracer.job.cgroup import find_hierarchy
from tracer.kernel.session import PYTHON
from tracer.recording import read_recording

KILLED = 128 + signal.SIGKILL
MIB = 1 << 20
NO_BTF = cover("/sys/kernel/btf")
WITHOUT_BCC = another_bcc("class BPF: pass")
OLD_BCC = """
class BPF:
    def __init__(self, **given): pass
    def __getitem__(self, name): return None
"""


@pytest.fixture
def less(can_trace, tmp_path):
    yield Less(tmp_path)
    hierarchy = find_hierarchy()
    events = [event for path in tmp_path.glob("*.oomtrace") if path.stat().st_size for event in read_recording(path)]
    made = [event.cgroup for event in events if isinstance(event, JobStarted) and event.own_cgroup]
    assert [path for path in made if Path(hierarchy.directory(path)).exists()] == []


@pytest.mark.parametrize(
    ("setup", "prefix", "why"),
    [
        (lambda: cover(str(Path(bcc_folder()).parent)), "", "has no usable bcc (No module named 'bcc'); install"),
        (lambda: another_bcc("raise RuntimeError('half upgraded')"), "", "has no usable bcc (half upgraded)"),
        (lambda: f"mount --bind /dev/null {bcc_library()}", "", "has no usable bcc ("),
        (lambda: another_bcc(OLD_BCC), "", "has no attribute 'attach_raw_tracepoint'"),
        (lambda: "true", f"{PYTHON} {SECCOMP}", "Operation not permitted"),
    ],
    ids=["no bcc", "broken bcc", "no libbcc", "bcc that lacks what is needed", "seccomp"],
)
def test_where_bpf_cannot_be_had_the_kernels_log_makes_it_likely(less, setup, prefix, why):
    run = less.run(*HOG, setup=setup(), prefix=prefix, options=LIMITED)

    assert run.code == KILLED
    [line] = said(run)
    assert "there will be no proof" in line
    assert why in line
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "likely")
    assert rungs(run) == ["kernel_log", "kernel_log", "proc", "wait_status"]
    assert run.verdict["job"]["pid"] == run.primary["victim"]["pid"]


@pytest.mark.parametrize(
    ("log", "limit"), [("true", "bpf_scalars"), (NO_LOG, "cgroup_counters")], ids=["with the log", "without"]
)
def test_without_type_information_the_bare_programs_make_it_likely(less, log, limit):
    run = less.run(*patient_hog(40), setup=f"{NO_BTF}; {log}", options=LIMITED)

    assert run.code == KILLED
    [line] = said(run)
    assert "cannot read /sys/kernel/btf/vmlinux" in line
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "likely")
    assert rungs(run) == ["bpf_scalars", limit, "proc", "wait_status"]
    assert run.primary["limit"]["constraint_by"] == "kernel_stack"
    assert run.primary["limit"]["limit_bytes"] == 64 * MIB
    assert run.verdict["job"]["pid"] == run.primary["victim"]["pid"]


def test_without_type_information_a_kill_by_hand_is_not_called_an_oom_kill(less):
    run = less.run("sh", "-c", "kill -9 $$", setup=NO_BTF, options=LIMITED)

    assert run.code == KILLED
    assert (run.primary["cause"], run.primary["strength"]) == ("inconclusive", "possible")


def test_without_type_information_nothing_is_proved_of_a_job_that_ends_well(less):
    run = less.run("true", setup=NO_BTF)

    assert (run.code, run.primary["cause"], run.primary["strength"]) == (0, "exited", "likely")


def test_what_the_kernel_prints_is_heard_where_its_log_cannot_be_read(less):
    run = less.run(*HOG, setup=NO_LOG, options=LIMITED)

    [hook] = [event for event in run.events(HookStatus) if event.hook == "raw_tracepoint:console"]
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert not run.primary["caveats"]
    assert ("printk (console tracepoint)" in run.verdict["watched_by"]) == hook.attached
    # The kernel prints ten of these lines in five seconds, whoever else is killed meanwhile.
    for decision in run.events(LoggedDecision):
        assert (decision.source, decision.trusted) == ("printk_console", True)
        assert "raw_tracepoint:console" in run.primary["limit"]["cgroup_by"]


def test_where_the_log_can_be_read_nothing_is_heard_twice(less):
    run = less.run(*HOG, options=LIMITED)

    assert not [event for event in run.events(HookStatus) if "console" in event.hook]
    assert {event.source for event in run.events(LoggedDecision)} <= {"kmsg"}


@pytest.mark.parametrize(
    ("setup", "missing"),
    [
        (f"{cover('/sys/kernel/debug')}; {cover('/sys/kernel/tracing')}", None),
        (NO_LOG, "kernel log"),
        (f"[ ! -d /proc/pressure ] || {cover('/proc/pressure')}", None),
        ("mount -t proc -o hidepid=2 proc /proc", None),
    ],
    ids=["no tracefs", "no kernel log", "no PSI", "hidepid"],
)
def test_what_is_no_part_of_the_proof_can_be_missing(less, setup, missing):
    run = less.run(*HOG, setup=setup, options=LIMITED)

    assert (run.code, said(run)) == (KILLED, [])
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert rungs(run) == ["bpf"] * 4
    assert (missing is None) == any("kernel log" in watcher for watcher in run.verdict["watched_by"])


def test_dev_null_in_the_place_of_the_log_is_not_taken_for_an_empty_log(less):
    run = less.run("true", setup=NO_LOG)

    [kmsg] = [event for event in run.events(HookStatus) if event.hook == "kmsg"]
    assert (kmsg.attached, kmsg.why_not) == (False, "/dev/kmsg: is no kernel log")


def test_in_a_cgroup_namespace_the_limit_is_recognised_by_its_id(less):
    one = V1 if (V1 / "memory.limit_in_bytes").exists() else Path("/sys/fs/cgroup")
    kind = "-t cgroup -o memory" if one == V1 else "-t cgroup2"
    run = less.run(
        *HOG,
        prefix=f"unshare --cgroup --mount sh -c 'umount -l {one} && mount {kind} none {one} && exec \"$@\"' --",
        options=LIMITED,
    )

    assert run.code == KILLED
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.primary["limit"]["limit_bytes"] == 64 * MIB


@pytest.mark.parametrize("prefix", [CAPS, NO_SYSLOG], ids=["CAP_BPF and CAP_PERFMON", "root without CAP_SYSLOG"])
def test_with_bpf_and_without_the_names_of_symbols_it_is_likely(less, memory_cgroup, prefix):
    memory_cgroup.limit(128 * MIB)
    run = less.run(*HOG, prefix=prefix, cgroup=memory_cgroup)

    assert run.code == KILLED
    assert rungs(run)[0] == "bpf"
    assert run.primary["cause"] == "host_oom_cgroup"
    if symbols_are_seen(prefix) or log_is_read(prefix):
        assert run.primary["strength"] == "proved"
    else:
        [line] = said(run)
        assert "CAP_SYSLOG" in line
        assert run.primary["strength"] == "likely"
        assert [run.links[link] for link in (1, 2, 3, 4)] == ["not_observed", "not_observed", "present", "present"]


def test_without_root_a_kill_is_likely_by_the_count_of_its_cgroup(less, memory_cgroup):
    memory_cgroup.limit(128 * MIB)
    run = less.run(*patient_hog(90), prefix=NOBODY, cgroup=memory_cgroup)

    assert run.code == KILLED
    cannot, could = said(run)
    assert "CAP_BPF and CAP_PERFMON" in cannot
    assert 'sudo "$(command -v oomtrace)" run' in could
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "likely")
    assert rungs(run)[0] == ("kernel_log" if log_is_read(NOBODY) else "cgroup_counters")
    assert run.verdict["job"]["pid"] == run.primary["victim"]["pid"]


def test_without_root_the_job_runs_as_it_would(less):
    run = less.run("sh", "-c", "id -u; exit 3", prefix=NOBODY)

    assert (run.code, run.out) == (3, "65534\n")
    assert (run.primary["cause"], run.primary["strength"]) == ("exited", "likely")


@pytest.mark.parametrize("option", [("--require-bpf",), ("--memory-max", "64M")])
def test_without_root_what_needs_it_is_refused_with_the_command_and_no_job_is_started(less, option):
    run = less.run("echo", "started", prefix=NOBODY, options=option, record=("--record", "-"))

    assert (run.code, run.out) == (4, "")
    [line] = said(run)
    assert 'sudo "$(command -v oomtrace)" run' in line


def test_without_bpf_and_log_the_count_of_the_jobs_own_cgroup_makes_it_likely(less):
    run = less.run(*patient_hog(44), setup=f"{WITHOUT_BCC}; {NO_LOG}", options=LIMITED)

    assert run.code == KILLED
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "likely")
    assert rungs(run) == ["cgroup_counters", "cgroup_counters", "proc", "wait_status"]


def test_without_bpf_and_log_a_kill_by_hand_is_not_called_an_oom_kill(less):
    run = less.run("sh", "-c", "kill -9 $$", setup=f"{WITHOUT_BCC}; {NO_LOG}", options=LIMITED)

    assert run.code == KILLED
    assert (run.primary["cause"], run.primary["strength"]) == ("inconclusive", "possible")
    assert run.primary["proof"][1]["statement"] == "its cgroup counted no OOM kill"


def test_without_bpf_and_log_a_kill_by_hand_beside_an_oom_kill_is_not_called_one(less):
    parent = f"import os, subprocess; subprocess.call({patient_hog(40)!r}); os.kill(os.getpid(), 9)"
    run = less.run(PYTHON, "-S", "-c", parent, setup=f"{WITHOUT_BCC}; {NO_LOG}", options=LIMITED)

    assert run.code == KILLED
    ooms = [i for i in run.verdict["incidents"] if i["cause"].startswith("host_oom")]
    assert len(ooms) == 1
    assert ooms[0]["strength"] in {"likely", "possible"}
    assert run.verdict["job"]["pid"] not in [victim["pid"] for victim in ooms[0]["victims"]]


def test_without_bpf_log_and_memory_controller_the_machines_count_makes_it_possible(less, memory_cgroup):
    memory_cgroup.limit(128 * MIB)
    no_controller = f"umount -l {V1}" if memory_cgroup.version == 1 else cover("/sys/fs/cgroup")
    run = less.run(*HOG, setup=f"{WITHOUT_BCC}; {NO_LOG}; {no_controller}", cgroup=memory_cgroup)

    assert run.code == KILLED
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_unknown_scope", "possible")
    assert run.verdict["watched_by"] == ["/proc"]


def test_without_a_memory_controller_a_limit_is_refused_and_no_job_is_started(less):
    no_controller = f"umount -l {V1}" if (V1 / "memory.limit_in_bytes").exists() else cover("/sys/fs/cgroup")
    run = less.run("echo", "started", setup=no_controller, options=LIMITED, record=("--record", "-"))

    assert (run.code, run.out, len(said(run))) == (5, "", 1)


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("mkdir ro && mount -t tmpfs -o ro none ro && cd ro", "no recording is kept: "),
        ("mkdir small && mount -t tmpfs -o size=8k none small && cd small && { cat /dev/zero > x; true; }", None),
    ],
    ids=["read-only folder", "no space"],
)
def test_where_no_recording_can_be_kept_the_job_runs_all_the_same(less, setup, line):
    run = less.run("sh", "-c", "exit 7", setup=f"{setup} 2>/dev/null", record=())

    assert run.code == 7
    assert line is None or [text.startswith(line) for text in said(run)] == [True]


@pytest.mark.parametrize(
    ("setup", "rung"),
    [
        ("true", "bpf"),
        (WITHOUT_BCC, "kernel_log"),
        (f"{WITHOUT_BCC}; {NO_LOG}", "cgroup_counters"),
    ],
    ids=["BPF", "kernel log", "counts"],
)
def test_a_recording_of_any_rung_says_the_same_on_another_machine(less, setup, rung):
    run = less.run(*patient_hog(44), setup=setup, options=LIMITED)
    there = less.report_elsewhere(f"{WITHOUT_BCC}; {NO_LOG}; {cover('/sys')}")

    assert there == run.verdict
    links = there["incidents"][there["primary"]]["proof"]
    assert links[0]["rung"] == rung
    # What was not observed rests on nothing, unless something less tells of it.
    assert all(link["rung"] for link in links if link["status"] == "present")
