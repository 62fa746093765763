# SPDX-License-Identifier: Apache-2.0
"""Kept runs: whose report of the kernel is kept, and what is left of a run that never was."""

import msgspec

from tests.unit.pipeline.stand_ins import forked
from tracer.events import JobStarted, ProcessSeen
from tracer.pipeline.clocks import header_now
from tracer.recording import read_recording
from tracer.repro import corpus
from tracer.repro.catalogue.mechanisms import SCENARIOS
from tracer.repro.confusion import Run
from tracer.repro.place import sweep

OURS, OTHER = "/a/oomtrace-run-repro-1", "/a/elsewhere"


def report(cgroup, name):
    return [
        f"4,1,5,-;{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "6,2,5,-;[   2386]     0  2386   278995   131244",
        f"6,3,5,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg={cgroup},task_memcg={cgroup},task={name},pid=1,uid=0",
        f"3,4,5,-;Memory cgroup out of memory: Killed process 1 ({name}) total-vm:1kB",
    ]


def test_reports_of_other_cgroups_are_left_out():
    records = ["6,0,1,-;said before", *report(OTHER, "a"), *report(OURS, "b"), "6,9,9,-;usb 1-1", *report(OTHER, "c")]

    assert list(corpus.oom_reports(records, of="/oomtrace-run-repro-")) == report(OURS, "b")


def test_a_report_that_was_cut_off_is_none():
    whole = report(OURS, "b")

    assert corpus.oom_reports(whole[:-1], of=OURS) == ()
    assert list(corpus.oom_reports([*whole[:2], *whole], of=OURS)) == whole


def test_a_run_that_never_was_is_not_judged(tmp_path):
    assert corpus.judged(SCENARIOS[0], tmp_path / "worker_cache-killed-1") is None


def test_a_run_that_could_not_be_played_says_so(tmp_path):
    stem = tmp_path / "worker_cache-killed-1"
    document = '{"outcome": "not_applicable", "counters": {"seen": 0, "lost": 0, "kernel": null}, "found": {}}'
    stem.with_suffix(".json").write_text(document)

    assert corpus.judged(SCENARIOS[0], stem) == Run(SCENARIOS[0].truth, "not_applicable", None)


def test_a_run_is_one_line_with_what_was_named():
    truth = SCENARIOS[0].truth

    assert corpus.line("x-1", Run(truth, "pass", None)).endswith("x-1                                  no mechanism")
    assert corpus.line("x-1", Run(truth, "fail", "a", ("b",), "possible")).endswith("a or b (possible)")


def test_shared_memory_that_the_dead_left_is_removed_and_that_of_others_is_not(tmp_path):
    for name in ("torch_7_1_0", "torch_8_1_0", "torch_x", "torch_", "sem.7"):
        (tmp_path / name).write_text("")

    sweep([forked(7, in_tree=1), forked(8, in_tree=0)], shm=str(tmp_path))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["sem.7", "torch_", "torch_8_1_0", "torch_x"]


def test_cgroups_round_a_run_get_names_of_the_same_length():
    cgroup = "/pods/0123456789ab/oomtrace-run-repro-1f/job"
    started = JobStarted(ts_ns=1, source="job", tgid=1, start_ns=2, cgroup=cgroup)

    assert corpus.own_cgroup([started]) == "/oomtrace-run-repro-1f"
    assert corpus.own_cgroup([]) == ""
    assert corpus.outer_names([started]) == {"pods": "oute", "0123456789ab": "outer1------"}
    assert corpus.outer_names([msgspec.structs.replace(started, cgroup="/oomtrace-run-repro-1f")]) == {}


def test_a_portable_recording_says_the_same_without_the_names_of_its_machine(tmp_path):
    header = msgspec.structs.replace(header_now(cgroup_version=1), seq=0)
    seen = ProcessSeen(
        ts_ns=5, seq=1, source="proc", tgid=1, start_ns=2, parent_tgid=0, comm="run",
        cmdline=("/root/checkout/run", "x"), exe="/root/py", environ={"RANK": "/root"},
    )  # fmt: skip
    path = tmp_path / "small.oomtrace"
    path.write_bytes(corpus.portable([header, seen], {"/root": "/home/user", "/root/checkout": "/srv/oomtrace"}))

    with read_recording(path) as recording:
        again = list(recording)
    expected = {"cmdline": ("/srv/oomtrace/run", "x"), "exe": "/home/user/py", "environ": {"RANK": "/home/user"}}
    assert again == [header, msgspec.structs.replace(seen, **expected)]
