# SPDX-License-Identifier: Apache-2.0
"""A job that oomtrace ended as asked: no failure, no unknown sender; and a kill that came first is still the kill."""

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of
from tracer.events import Disarmed, EndAsked, JobEnded, Losses
from tracer.units import NS_PER_MS, NS_PER_S, TICK_NS
from tracer.verdict.judge import judge

TRACER = 99


def ended_as_asked(scene, *, rank_status=15, status=15):
    """SIGTERM to all of the group, by the tracer whose pid is in the header."""
    scene.pass_time(NS_PER_S)
    scene.add(EndAsked(ts_ns=scene.now_ns, source="job", why="epochs=1 was reached", signal=15, tracer_tgid=TRACER))
    for pid in (LAUNCHER, RANK, *WORKERS):
        scene.signal(pid, 15, sender_tgid=TRACER, sender_start_ns=1, sender_comm="oomtrace", info=0)
    scene.pass_time(20 * NS_PER_MS)
    for pid in (*WORKERS, RANK):
        scene.exit(pid, rank_status)
    scene.exit(LAUNCHER, status)
    start_ns = start_of(LAUNCHER) // TICK_NS * TICK_NS
    scene.add(JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_ns, status=status))
    scene.add(Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, source="tracer"))
    scene.add(Disarmed(ts_ns=scene.now_ns + 2 * NS_PER_S, source="tracer"))
    return judge(scene.events).verdict


def begun():
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    return scene


def test_it_is_the_only_incident_and_no_failure():
    for rank_status, status in ((15, 15), (1 << 8, 1 << 8), (15, 143 << 8), (9, 9)):
        verdict = ended_as_asked(begun(), rank_status=rank_status, status=status)
        incident = verdict.incidents[verdict.primary]

        assert [one.as_asked for one in verdict.incidents] == [True]
        assert incident.cause == "exited"
        assert incident.headline == "Ended by oomtrace, as asked: epochs=1 was reached"
        assert "got SIGTERM from oomtrace" in incident.summary


def test_an_oom_kill_before_it_is_what_is_told():
    scene = begun()
    scene.grow()
    scene.kill()
    verdict = ended_as_asked(scene)

    assert verdict.incidents[verdict.primary].cause == "host_oom_cgroup"


def test_a_job_that_had_ended_by_itself_was_not_ended_by_us():
    scene = begun()
    scene.exit(LAUNCHER, 3 << 8)
    scene.pass_time(NS_PER_S)
    scene.add(EndAsked(ts_ns=scene.now_ns, source="job", why="1 min has passed", signal=15))
    verdict = judge(scene.events).verdict

    assert not verdict.incidents[verdict.primary].as_asked
