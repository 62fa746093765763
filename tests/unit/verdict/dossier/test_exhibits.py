# SPDX-License-Identifier: Apache-2.0
"""Evidence as it was recorded, with what its numbers mean; the kernel's own lines; facts of the recording."""

import msgspec

from tests.captured import captures, recording_of
from tests.unit.verdict.dossier.test_chart import dossier_of
from tests.unit.verdict.scenes import WORKERS, Scene
from tracer.events import JobStarted, Losses, TracerCost
from tracer.units import NS_PER_S
from tracer.verdict.dossier import exhibits, kernel_report


def killed(*, log: bool = False):
    scene = Scene()
    scene.job()
    scene.grow()
    scene.kill()
    if log:
        scene.log_decision(WORKERS[2])
        scene.log_kill(WORKERS[2], text="Memory cgroup out of memory: Killed process 41233")
    return scene.finish(1 << 8)


def fields(exhibit):
    return {field.name: (field.value, field.meaning) for field in exhibit.fields}


def test_all_that_links_name_as_evidence_is_there():
    dossier = dossier_of(killed())
    named = {seq for link in dossier.report.verdict.incidents[0].proof for seq in link.evidence}

    assert named
    assert named <= set(dossier.exhibits)
    assert all(dossier.exhibits[seq].seq == seq for seq in named)


def test_every_real_kill_has_its_evidence_beside_it():
    for capture in (one for one in captures() if one.kernel == "6.12"):
        dossier = dossier_of(recording_of(capture))
        primary = dossier.report.verdict.incidents[dossier.report.verdict.primary]
        named = {seq for link in primary.proof for seq in link.evidence}

        assert named <= set(dossier.exhibits), str(capture)


def test_numbers_stand_as_recorded_and_in_words():
    dossier = dossier_of(killed())
    kinds = {one.kind: fields(one) for one in reversed(dossier.exhibits.values())}

    assert kinds["OomMark"]["anon_rss_bytes"] == ("421527552", "402 MiB")
    assert kinds["SignalSent"]["signal"] == ("9", "SIGKILL")
    assert kinds["SignalSent"]["info"][1] == "SEND_SIG_PRIV: the kernel itself"
    assert kinds["ProcessExited"]["status"] == ("9", "SIGKILL")
    assert kinds["OomLevel"]["limit_bytes"][1] in {"512 MiB", "no limit"}


def test_long_values_are_cut_and_say_so():
    started = next(event for event in killed() if isinstance(event, JobStarted))
    long = exhibits.exhibit(msgspec.structs.replace(started, argv=("x" * 5000,)))
    value = fields(long)["argv"][0]

    assert len(value) < exhibits.VALUE_CHARS + 40
    assert value.endswith("more characters)")


def test_evidence_is_bounded():
    scene = Scene()
    scene.job()
    for pid in range(50_000, 50_600):
        scene.fork(pid, WORKERS[0])
        scene.kill(pid)

    assert len(dossier_of(scene.finish(1 << 8)).exhibits) <= exhibits.MOST_EXHIBITS


def test_lines_of_the_kernel_stand_in_its_own_order_and_whether_they_can_be_trusted():
    scene = Scene()
    scene.job()
    scene.kill()
    scene.log_kill(WORKERS[2], text="second", log_seq=8)
    scene.log_kill(WORKERS[2], text="first", log_seq=7)
    scene.log_kill(WORKERS[2], text="forged", trusted=False, log_seq=9)

    lines = dossier_of(scene.finish(1 << 8)).kernel.lines

    assert [(line.text, line.trusted) for line in lines] == [("first", True), ("second", True), ("forged", False)]


def test_lines_far_from_the_incident_are_counted():
    scene = Scene()
    scene.job()
    for number in range(300):
        scene.log_kill(WORKERS[0], text=f"early {number}", log_seq=number)
    scene.pass_time(60 * NS_PER_S)
    scene.kill()
    for number in range(300, 600):
        scene.log_kill(WORKERS[2], text=f"late {number}", log_seq=number)

    kernel = dossier_of(scene.finish(1 << 8)).kernel

    assert len(kernel.lines) == kernel_report.MOST_LINES
    assert kernel.left_out == 600 - kernel_report.MOST_LINES
    assert all(line.text.startswith("late") for line in kernel.lines)


def test_facts_tell_what_watched_and_what_was_lost():
    scene = Scene()
    scene.job()
    scene.kill()
    scene.add(Losses(ts_ns=scene.now_ns, dropped={"oom_mark": 2}, untracked=1))
    scene.add(TracerCost(ts_ns=scene.now_ns, cpu_ns=NS_PER_S, scans=3))

    facts = dossier_of(scene.events).facts
    rows = dict(facts.rows)

    assert facts.losses == (("oom_mark", 2), ("untracked", 1))
    assert rows["watched until"].startswith("not known")
    assert rows["watching cost"] == "1.0 s of CPU time, 3 scans"
    assert {hook.hook for hook in facts.hooks if hook.attached} >= {"kmsg", "raw_tracepoint:mark_victim"}


def test_where_nothing_says_whether_something_was_lost_that_is_not_known():
    scene = Scene()
    scene.begin()

    assert not dossier_of(scene.events).facts.losses_known


def test_every_moment_that_can_be_shown_has_its_time_of_day():
    dossier = dossier_of(killed(log=True))
    shown = {entry.at_ns for entry in dossier.report.timeline} | {one.at_ns for one in dossier.exhibits.values()}

    assert shown <= set(dossier.utc)
