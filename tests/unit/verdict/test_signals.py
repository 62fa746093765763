# SPDX-License-Identifier: Apache-2.0
"""Deaths by a signal: who is named as its sender and how sure that is, and what is said of the OOM killer beside it."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import DYING_STACK, HOOKS, LAUNCHER, RANK, Scene, primary, start_of
from tracer.events import Header, JobEnded, Losses, SignalInfo
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
BY_LAUNCHER = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
BY_RANK = {"sender_tgid": RANK, "sender_tid": RANK, "sender_start_ns": start_of(RANK)}
KERNEL = {"info": SignalInfo.PRIV, "code": 128}


def begun(**begin: Any) -> Scene:
    scene = Scene()
    scene.begin(**begin)
    scene.fork(RANK, LAUNCHER)
    scene.pass_time(20 * NS_PER_S)
    return scene


def ended(
    number: int, *, scene: Scene | None = None, sent: dict[str, Any] | None = None, oom_marked: int = 0
) -> Incident:
    """The job's first process ends by a signal, which was sent so or not seen."""
    scene = scene or begun()
    if sent is not None:
        scene.signal(LAUNCHER, number, **sent)
    scene.pass_time(NS_PER_S)
    scene.exit(LAUNCHER, number, oom_marked=oom_marked)
    scene.pass_time(-NS_PER_S)
    return primary(judge(scene.finish(number)))


@pytest.mark.parametrize(
    ("number", "sent", "cause", "strength", "headline", "first"),
    [
        (9, OUTSIDE, "sigkill", "proved", "Ended by SIGKILL from 'bash' (pid 7)", "SIGKILL (kill) from 'bash'"),
        (9, {**OUTSIDE, "code": -1}, "sigkill", "proved", "Ended by SIGKILL from", "SIGKILL (sigqueue) from 'bash'"),
        (9, {**OUTSIDE, "code": -6}, "sigkill", "proved", "Ended by SIGKILL from", "SIGKILL (tgkill) from 'bash'"),
        (9, KERNEL, "kernel_sigkill_other", "proved", "Killed by the kernel, but not by its OOM", "by the kernel, in"),
        (
            9,
            {**OUTSIDE, "info": SignalInfo.NOINFO, "sender_flags": 4},
            "kernel_sigkill_other",
            "proved",
            "Killed by the kernel, but not by its OOM killer",
            "when its parent 'bash' (7) ended",
        ),
        (9, None, "inconclusive", "possible", "who sent it was not observed", "nobody was seen to send SIGKILL"),
        (9, {**OUTSIDE, "code": -2}, "inconclusive", "possible", "who sent it was not", "of a timer or the like"),
        (
            9,
            {**OUTSIDE, "code": -2, "sender_flags": 0x200000},
            "inconclusive",
            "possible",
            "who sent it was not observed",
            "of a timer or the like",
        ),
        (15, OUTSIDE, "sigterm", "proved", "Ended by SIGTERM from 'bash' (pid 7)", "SIGTERM (kill) from 'bash'"),
        (15, None, "sigterm", "likely", "SIGTERM, and who sent it was not", "nobody was seen to send SIGTERM"),
        (15, {**OUTSIDE, "code": -2}, "sigterm", "likely", "and who sent it was not", "(code -2)"),
        (15, {"code": 1}, "sigterm", "likely", "and who sent it was not", "raised in its own context"),
        (15, {"code": 128}, "sigterm", "likely", "and who sent it was not", "raised in its own context"),
        (11, {"code": 1}, "crash", "proved", "Crashed: SIGSEGV", "raised by the kernel for what it did (code 1)"),
        (11, None, "crash", "likely", "Crashed: SIGSEGV", "nobody was seen to send SIGSEGV"),
        (11, {"code": 0}, "crash", "proved", "Crashed: SIGSEGV", "SIGSEGV (kill) from itself"),
        (11, OUTSIDE, "crash", "proved", "Ended by SIGSEGV, sent by another process", "SIGSEGV (kill) from 'bash'"),
        (4, None, "crash", "likely", "Crashed: SIGILL", "nobody was seen to send SIGILL"),
        (2, None, "exited", "proved", "Ended by SIGINT", "signal 2 (SIGINT); senders of it are not watched"),
    ],
)
def test_a_death_by_a_signal_names_its_sender_as_far_as_it_was_seen(
    number: int, sent: dict[str, Any] | None, cause: str, strength: str, headline: str, first: str
) -> None:
    found = ended(number, sent=sent)

    assert (cause, strength, number) == (found.cause, found.strength, found.signal)
    assert headline in found.headline
    assert first in found.proof[0].statement
    assert [1, 2, 3, 4] == [link.link for link in found.proof]
    status = {"proved": "present"}.get(strength, "not_observed")
    assert [status, "present", "present", "present"] == [link.status for link in found.proof]
    assert (sent is not None) == bool(found.proof[0].evidence)


@pytest.mark.parametrize("sent", [BY_LAUNCHER, BY_RANK])
def test_a_crash_signal_that_the_job_sent_itself_is_said_to_be_sent(sent: dict[str, Any]) -> None:
    scene = begun()
    scene.fork(300, LAUNCHER)
    scene.signal(300, 11, **sent)
    scene.exit(300, 11)
    found = next(i for i in judge(scene.finish()).verdict.incidents if i.cause == "crash")

    assert "Ended by SIGSEGV, sent by another process" == found.headline


def test_of_a_signal_whose_senders_are_not_watched_none_is_missed() -> None:
    assert "Ended by SIGINT" == ended(2).headline


def test_a_summary_tells_the_sender_of_what_can_be_sent_for_a_reason() -> None:
    killed, crashed = ended(9, sent=OUTSIDE), ended(11, sent=OUTSIDE)
    unknown = begun()
    unknown.items = [event for event in unknown.items if not isinstance(event, Header)]

    assert f"Launcher (pid {LAUNCHER}) ended at 14:13:41.002 UTC by SIGKILL from 'bash'" in killed.summary
    assert "from" not in crashed.summary
    assert f"Launcher (pid {LAUNCHER}) ended by SIGKILL." == ended(9, scene=unknown).summary


@pytest.mark.parametrize("missing", ["mark_victim", "signal_generate"])
def test_where_the_oom_killer_was_not_watched_nothing_is_said_of_it(missing: str) -> None:
    found = ended(9, scene=begun(hooks=[hook for hook in HOOKS if hook != missing]), sent=OUTSIDE)

    assert ("not_observed", "likely") == (found.proof[1].status, found.strength)
    assert "was not watched" in found.proof[1].statement


def test_where_the_kernel_does_not_follow_the_job_nothing_is_said_of_its_oom_killer() -> None:
    scene = Scene()
    scene.begin()
    scene.pass_time(NS_PER_S)
    done = JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=9)
    scene.add(done)
    found = primary(judge(scene.finish(root_exit=False)))

    assert ("inconclusive", "not_observed") == (found.cause, found.proof[1].status)
    assert "signal 9 (SIGKILL); its parent's wait says the same" == found.proof[3].statement


@pytest.mark.parametrize(
    ("sent", "dying", "oom_marked", "status", "words"),
    [
        (OUTSIDE, False, 0, "present", "neither killed nor marked it"),
        (OUTSIDE, False, 1, "present", "when it was dying already"),
        (OUTSIDE, True, 1, "present", "when it was dying already"),
        (KERNEL, True, 1, "present", "when it was dying already"),
        (None, True, 0, "present", "when it was dying already"),
        (None, False, 1, "not_observed", "how was not seen"),
    ],
)
def test_a_mark_beside_another_cause_of_death_is_explained(
    sent: dict[str, Any] | None, dying: bool, oom_marked: int, status: str, words: str
) -> None:
    scene = begun()
    if dying:
        # Just after what ended it: one that is dying already is sent nothing any more.
        scene.stack(scene.mark(LAUNCHER, RANK, ts_ns=scene.now_ns + 1), DYING_STACK)
    found = ended(9, scene=scene, sent=sent, oom_marked=oom_marked)

    assert status == found.proof[1].status
    assert words in found.proof[1].statement
    assert dying == any("already dying" in caveat for caveat in found.caveats)


def test_an_exit_that_was_not_seen_was_not_marked() -> None:
    scene = begun()
    scene.signal(LAUNCHER, 9, **OUTSIDE)
    done = JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=9)
    scene.add(done)
    scene.signal(LAUNCHER, 9, in_tree=1)

    assert "neither killed nor marked" in primary(judge(scene.finish(root_exit=False))).proof[1].statement


@pytest.mark.parametrize(("since_ns", "strength"), [(-20 * NS_PER_S, "proved"), (-9 * NS_PER_S, "likely")])
def test_losses_count_from_before_the_signal_to_after_the_death(since_ns: int, strength: str) -> None:
    scene = begun()
    scene.signal(LAUNCHER, 15, **OUTSIDE)
    scene.pass_time(since_ns)
    scene.add(Losses(ts_ns=scene.now_ns, dropped={"signal_sent": 1}))
    scene.pass_time(30 * NS_PER_S - since_ns)
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"signal_sent": 1})
    found = primary(judge(scene.finish(15, losses=losses)))

    assert strength == found.strength
    assert (strength == "likely") == any("were lost near it" in caveat for caveat in found.caveats)


def test_a_wait_that_contradicts_leaves_the_death_open() -> None:
    scene = begun()
    scene.signal(LAUNCHER, 9, **OUTSIDE)
    scene.exit(LAUNCHER, 9)
    scene.add(JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=0))
    found = primary(judge(scene.finish(root_exit=False)))

    assert ("absent", "possible") == (found.proof[3].status, found.strength)
    assert "its parent's wait says otherwise" == found.proof[3].statement


def test_of_a_member_no_wait_is_told() -> None:
    scene = begun()
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)

    assert "signal 9 (SIGKILL)" == primary(judge(scene.finish(137 << 8))).proof[3].statement


def stopped(status: int = 3 << 8, **sent: Any) -> Incident:
    """A job that got SIGTERM and ended some time after."""
    scene = begun()
    scene.signal(LAUNCHER, 15, **sent)
    return primary(judge(scene.finish(status)))


def test_a_handled_sigterm_from_outside_stopped_the_job() -> None:
    found = stopped(**OUTSIDE)

    assert ("sigterm", "likely", 3, 15) == (found.cause, found.strength, found.exit_code, found.signal)
    assert [(1, "present"), (2, "present"), (3, "present"), (4, "not_observed")] == [
        (link.link, link.status) for link in found.proof
    ]
    assert "Stopped by SIGTERM from 'bash' (pid 7)" == found.headline
    assert "2026-09-21T14:13:40.002000Z" == found.at


@pytest.mark.parametrize(
    ("status", "sent", "cause"),
    [
        (3 << 8, {**OUTSIDE, "sender_flags": 0x200000}, "sigterm"),
        (0, OUTSIDE, "exited"),
        (3 << 8, BY_RANK, "exited"),
        (3 << 8, {}, "exited"),
        (3 << 8, {**OUTSIDE, "code": -2}, "exited"),
        (3 << 8, {**OUTSIDE, "result": 1}, "exited"),
    ],
)
def test_a_job_was_stopped_only_from_outside_and_only_if_it_failed(
    status: int, sent: dict[str, Any], cause: str
) -> None:
    assert cause == stopped(status, **sent).cause


def test_a_job_that_ended_well_was_not_stopped() -> None:
    scene = begun()
    scene.signal(LAUNCHER, 15, **OUTSIDE)

    assert ["exited"] == [i.cause for i in judge(scene.finish(0)).verdict.incidents]


def test_victims_of_the_oom_killer_are_no_deaths_by_a_signal() -> None:
    scene = Scene()
    scene.job()
    scene.kill()

    assert ["host_oom_cgroup"] == [i.cause for i in judge(scene.finish()).verdict.incidents]


@pytest.mark.parametrize(("sent", "told"), [(BY_LAUNCHER, False), (BY_RANK, False), (OUTSIDE, True), ({}, True)])
def test_what_the_job_did_to_itself_is_no_incident_of_its_own(sent: dict[str, Any], told: bool) -> None:
    scene = begun()
    scene.fork(300, LAUNCHER)
    scene.pass_time(NS_PER_MS)
    scene.signal(300, 15, **sent)
    scene.exit(300, 15)

    assert told == any(i.cause == "sigterm" for i in judge(scene.finish(0)).verdict.incidents)


@pytest.mark.parametrize("why", ["lost", "not hooked"])
def test_a_sigkill_of_the_kernels_is_not_said_to_be_none_for_memory_where_its_mark_may_be_missing(why: str) -> None:
    scene = Scene()
    scene.begin(hooks=HOOKS if why == "lost" else [hook for hook in HOOKS if hook != "mark_victim"])
    scene.oom_signal(LAUNCHER, 4242)
    lost = Losses(ts_ns=scene.now_ns, source="tracer", dropped={"oom_mark": 1} if why == "lost" else {})
    found = primary(judge(scene.finish(9, losses=lost)))

    assert ("inconclusive", "possible") == (found.cause, found.strength)
    assert "Killed by the kernel, and whether by its OOM killer was not observed" == found.headline
    assert "not_observed" == found.proof[1].status
    assert "; not from the OOM killer" not in found.proof[0].statement
