# SPDX-License-Identifier: Apache-2.0
"""The links of an OOM kill's proof: what the first and the fourth claim, and what takes the claim away."""

from typing import Any

import pytest

from tests.unit.verdict.marks import TRIGGER, VICTIM, begun, incident, marked, shot
from tests.unit.verdict.scenes import LAUNCHER, Scene, primary, start_of
from tracer.events import HookStatus, JobEnded, LoggedKill, Losses
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Link


def died(scene: Scene) -> Link:
    """Link 4."""
    found = incident(scene)
    assert [1, 2, 3, 4, 5] == [link.link for link in found.proof]
    return found.proof[3]


def test_an_exit_by_sigkill_within_a_minute_is_its_death() -> None:
    link = died(shot(after_ns=60 * NS_PER_S))

    assert ("present", "exit by signal 9 after 60.0 s") == (link.status, link.statement)
    assert link.evidence


def test_an_exit_later_than_a_minute_may_have_another_cause() -> None:
    link = died(shot(after_ns=60 * NS_PER_S + 1))

    assert "not_observed" == link.status
    assert "only 60.0 s later" in link.statement


def test_an_exit_that_was_not_seen_is_said_to_be_that() -> None:
    link = died(shot(status=None))

    assert ("not_observed", "its exit was not seen", ()) == (link.status, link.statement, link.evidence)


def test_another_end_is_not_this_kills() -> None:
    link = died(shot(status=15))

    assert ("absent", "it ended by signal 15 (SIGTERM), not by this kill") == (link.status, link.statement)


def test_an_earlier_sigkill_is_what_it_died_of() -> None:
    scene = begun()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.pass_time(1)
    link = died(shot(scene))

    assert ("absent", "an earlier SIGKILL had been delivered to it") == (link.status, link.statement)


def test_a_sigkill_that_was_not_delivered_is_no_earlier_cause() -> None:
    scene = begun()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1, result=2)
    scene.pass_time(1)

    assert "present" == died(shot(scene)).status


def test_an_earlier_sigkill_counts_only_where_the_kills_own_was_seen() -> None:
    scene = begun()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.pass_time(1)
    scene.levels(marked(scene))
    scene.exit(VICTIM, 9, oom_marked=1)

    assert "present" == died(scene).status


def test_an_exit_before_the_kills_signal_was_no_death_of_it() -> None:
    scene = begun()
    scene.exit(VICTIM, 9)
    scene.pass_time(1)
    link = died(shot(scene, status=None))

    assert ("absent", "it was exiting before the kill") == (link.status, link.statement)


def test_an_exit_before_the_mark_alone_is_in_time() -> None:
    scene = begun()
    scene.exit(VICTIM, 9, oom_marked=1)
    scene.pass_time(NS_PER_MS)
    scene.levels(marked(scene))
    link = died(scene)

    assert ("present", "exit by signal 9 after 0 us") == (link.status, link.statement)


def job_killed(waited: int | None, *, seen: bool = True) -> Link:
    scene = begun()
    scene.oom_signal(LAUNCHER, TRIGGER)
    scene.levels(marked(scene, pid=LAUNCHER))
    if seen:
        scene.exit(LAUNCHER, 9, oom_marked=1)
    if waited is not None:
        ended = {"tgid": LAUNCHER, "start_ns": start_of(LAUNCHER), "status": waited}
        scene.add(JobEnded(ts_ns=scene.now_ns, source="job", **ended))
    return primary(judge(scene.finish(root_exit=False))).proof[3]


def test_a_parents_wait_confirms_or_contradicts() -> None:
    assert "exit by signal 9 after 0 us; its parent's wait says the same" == job_killed(9).statement
    assert "exit by signal 9 after 0 us" == job_killed(None).statement
    assert "exit by signal 9 after 0 us" == job_killed(9, seen=False).statement
    contradicted = job_killed(0)
    assert "not_observed" == contradicted.status
    assert "the kernel saw signal 9 (SIGKILL), but its parent's wait says otherwise" == contradicted.statement


@pytest.mark.parametrize(("since_ns", "strength"), [(NS_PER_S, "likely"), (NS_PER_S + 1, "proved")])
def test_losses_count_up_to_a_second_after_the_exit(since_ns: int, strength: str) -> None:
    scene = shot(after_ns=30 * NS_PER_S)
    scene.add(Losses(ts_ns=scene.now_ns + since_ns))
    scene.pass_time(60 * NS_PER_S)

    assert strength == incident(scene, dropped={"oom_mark": 1}).strength


def test_whoever_was_allocating_is_named_in_the_first_link() -> None:
    own, others = begun(), begun()
    own.kill(VICTIM)
    others.kill(VICTIM, TRIGGER, trigger_comm="python3")

    assert "while it was allocating" in incident(own).proof[0].statement
    assert f"while 'python3' ({TRIGGER}) was allocating" in incident(others).proof[0].statement
    assert 2 == len(incident(own).proof[0].evidence)


def test_a_kill_that_was_not_seen_in_full_says_what_is_missing() -> None:
    scene = begun()
    scene.levels(marked(scene))

    assert "marked in the kernel's kill path, but its SIGKILL was not observed" == incident(scene).proof[0].statement


def test_a_kill_that_only_the_log_tells_of_says_so() -> None:
    scene = begun(hooks=())
    scene.log_kill(LAUNCHER)

    assert incident(scene).proof[0].statement.startswith("the kernel's log says")


SLACK = 4 * MIB


@pytest.mark.parametrize(
    ("marked_sizes", "fields", "agrees"),
    [
        ((402 * MIB, 5 * MIB, 0), {}, True),
        ((402 * MIB - SLACK, 5 * MIB + SLACK, SLACK), {}, True),
        ((402 * MIB - SLACK - 1, 5 * MIB, 0), {}, False),
        ((402 * MIB + SLACK + 1, 5 * MIB, 0), {}, False),
        ((402 * MIB, 5 * MIB + SLACK + 1, 0), {}, False),
        ((402 * MIB, 5 * MIB, 9 * MIB), {"shmem_rss_bytes": 4 * MIB}, False),
        ((402 * MIB, 5 * MIB, 9 * MIB), {"shmem_rss_bytes": 6 * MIB}, True),
        ((402 * MIB, 5 * MIB, 9 * MIB), {"shmem_rss_bytes": None}, True),
        ((402 * MIB, SLACK, 0), {"file_rss_bytes": None}, True),
        ((402 * MIB, SLACK + 1, 0), {"file_rss_bytes": None}, False),
        ((9, 90 * MIB, 0), {"anon_rss_bytes": None}, True),
    ],
)
def test_the_logs_sizes_agree_within_four_mebibytes(
    marked_sizes: tuple[int, int, int], fields: dict[str, Any], agrees: bool
) -> None:
    names = ("anon_rss_bytes", "file_rss_bytes", "shmem_rss_bytes")
    scene = begun()
    scene.kill(VICTIM, **dict(zip(names, marked_sizes, strict=True)))
    values = {"anon_rss_bytes": 402 * MIB, "file_rss_bytes": 5 * MIB, "shmem_rss_bytes": 0, **fields}
    scene.add(LoggedKill(ts_ns=scene.now_ns, source="kmsg", trusted=True, pid=VICTIM, comm="c", memcg=True, **values))
    found = incident(scene)

    assert found.proof[0].statement.endswith("log agrees" if agrees else "log disagrees")
    assert agrees == (() == found.caveats)


@pytest.mark.parametrize(("attached", "told"), [(True, True), (False, False)])
def test_that_the_log_has_no_line_of_it_is_said_where_it_was_read(attached: bool, told: bool) -> None:
    scene = begun()
    if not attached:
        scene.add(HookStatus(ts_ns=scene.now_ns, hook="kmsg", attached=False))
    scene.kill(VICTIM)

    assert told == ("log has no line of it" in incident(scene).proof[0].statement)
