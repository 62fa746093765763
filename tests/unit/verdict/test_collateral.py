# SPDX-License-Identifier: Apache-2.0
"""Several failures of one job: each end belongs to the one that explains it, by cause and by time."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.unit.verdict.scenes import LAUNCHER, Scene, primary, start_of
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.collateral import WAITED_NS
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

RANKS = (500, 510, 520, 530)
HUMAN = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
BY_LAUNCHER = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}


def worker(rank: int, number: int = 0, of: tuple[int, ...] = RANKS) -> int:
    return of[rank] + 1 + number


def ranks(scene: Scene, pids: tuple[int, ...] = RANKS, restart: int = 0) -> None:
    """One attempt of the launcher's: four ranks with two workers each."""
    for rank, pid in enumerate(pids):
        environ = {"RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RUN_ID": "x"}
        scene.fork(pid, LAUNCHER)
        scene.seen(pid, LAUNCHER, "python3", {**environ, "TORCHELASTIC_RESTART_COUNT": str(restart)})
    for rank, pid in enumerate(pids):
        loader(scene, pid, (worker(rank, 0, pids), worker(rank, 1, pids)))


def loader(scene: Scene, rank: int, pids: tuple[int, ...]) -> None:
    for pid in pids:
        scene.fork(pid, rank, comm="pt_data_worker")
        scene.seen(pid, rank, "pt_data_worker", None)


def begun() -> Scene:
    scene = Scene()
    scene.begin()
    ranks(scene)
    scene.pass_time(10 * NS_PER_S)
    return scene


def struck(scene: Scene, pid: int, number: int = 9, **sent: Any) -> None:
    scene.signal(pid, number, **(sent or HUMAN))
    scene.pass_time(NS_PER_MS)
    scene.exit(pid, number)


def stopped(scene: Scene, *pids: int) -> None:
    """The launcher ends what is left."""
    for pid in pids:
        struck(scene, pid, 15, **BY_LAUNCHER)


def told(report: Report) -> list[tuple[str, int | None, set[int]]]:
    """Cause, victim and collateral of each incident."""
    return [
        (i.cause, i.victim.pid if i.victim else None, {c.pid for c in i.collateral}) for i in report.verdict.incidents
    ]


def test_two_failures_far_apart_have_each_its_own_collateral() -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(290 * NS_PER_S)
    struck(scene, RANKS[2])
    stopped(scene, RANKS[0], RANKS[1], RANKS[3])

    assert told(judge(scene.finish())) == [
        ("host_oom_cgroup", worker(0), set()),
        ("sigkill", RANKS[2], {RANKS[0], RANKS[1], RANKS[3], LAUNCHER}),
    ]


HELPER, HELPER_OF_RANK_0 = 300, 301


def with_helpers() -> Scene:
    scene = begun()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.fork(HELPER_OF_RANK_0, RANKS[0], comm="manager")
    scene.pass_time(NS_PER_S)
    return scene


def test_a_rank_that_fails_after_a_helper_was_killed_may_have_failed_of_something_else() -> None:
    scene = with_helpers()
    scene.kill(HELPER, comm="helper")
    scene.pass_time(4 * NS_PER_S)
    scene.exit(RANKS[0], 1 << 8)
    scene.pass_time(NS_PER_MS)
    stopped(scene, *RANKS[1:])
    report = judge(scene.finish())

    assert (
        told(report)
        == [
            ("host_oom_cgroup", HELPER, {LAUNCHER}),  # which had started it
            ("exited", RANKS[0], set(RANKS[1:])),
        ]
    )
    assert any(
        f"rank 0 (pid {RANKS[0]}), which exited with status 1 4.0 s later, failed because of that" in one
        for one in primary(report).caveats
    )


def test_a_rank_whose_helper_was_killed_and_those_that_fail_with_it_are_its_collateral() -> None:
    scene = with_helpers()
    scene.kill(HELPER_OF_RANK_0, comm="manager")
    scene.pass_time(4 * NS_PER_S)
    scene.exit(RANKS[0], 1 << 8)
    scene.pass_time(NS_PER_MS)
    scene.exit(RANKS[1], 1 << 8)
    stopped(scene, *RANKS[2:])
    report = judge(scene.finish())

    assert told(report) == [("host_oom_cgroup", HELPER_OF_RANK_0, {*RANKS, LAUNCHER})]
    assert not any("was not seen" in one for one in primary(report).caveats)


def test_what_fails_soon_after_in_the_line_of_the_first_is_the_firsts() -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(2 * NS_PER_S)
    struck(scene, worker(3))
    scene.pass_time(2 * NS_PER_S)
    scene.exit(RANKS[0], 1 << 8)
    stopped(scene, RANKS[1])
    scene.exit(RANKS[3], 1 << 8)

    assert told(judge(scene.finish())) == [
        ("host_oom_cgroup", worker(0), {RANKS[0], RANKS[1], LAUNCHER}),
        ("sigkill", worker(3), {RANKS[3]}),
    ]


def test_a_launcher_stops_the_others_for_the_rank_that_had_failed_last() -> None:
    scene = begun()
    struck(scene, worker(3))
    scene.pass_time(2 * NS_PER_S)
    scene.kill(worker(0))
    scene.pass_time(NS_PER_S)
    scene.exit(RANKS[3], 1 << 8)
    stopped(scene, RANKS[0], RANKS[1], RANKS[2])

    assert told(judge(scene.finish())) == [
        ("sigkill", worker(3), {RANKS[0], RANKS[1], RANKS[2], RANKS[3], LAUNCHER}),
        ("host_oom_cgroup", worker(0), set()),
    ]


def test_a_crash_that_follows_from_a_kill_is_no_incident_and_has_no_collateral_of_its_own() -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(600 * NS_PER_S)
    scene.signal(RANKS[1], 6, sender_tgid=RANKS[1], sender_tid=RANKS[1])
    scene.exit(RANKS[1], 6)
    stopped(scene, RANKS[0], RANKS[2])

    assert told(judge(scene.finish())) == [("host_oom_cgroup", worker(0), {RANKS[0], RANKS[1], RANKS[2], LAUNCHER})]


@pytest.mark.parametrize(("after_ns", "collateral"), [(WAITED_NS, True), (WAITED_NS + 1, False)])
def test_what_ends_long_after_everything_else_did_so_for_another_reason(after_ns: int, *, collateral: bool) -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(1200 * NS_PER_S)
    scene.exit(RANKS[0], 1 << 8)
    scene.pass_time(after_ns)
    scene.exit(RANKS[1], 1 << 8)
    [(_, _, pids)] = told(judge(scene.finish()))

    assert RANKS[0] in pids
    assert collateral == (RANKS[1] in pids)


AGAIN = (600, 610, 620, 630)


def begun_again(after: int = 0) -> Scene:
    """A worker is killed for want of memory, its rank raises, the agent stops the others and begins again."""
    scene = begun()
    scene.kill(worker(after))
    scene.pass_time(NS_PER_S)
    scene.exit(RANKS[after], 1 << 8)
    stopped(scene, *(pid for pid in RANKS if pid != RANKS[after]))
    scene.pass_time(NS_PER_S)
    ranks(scene, AGAIN, restart=1)
    scene.pass_time(10 * NS_PER_S)
    return scene


def test_what_failed_before_an_agent_began_again_is_not_what_failed_the_job_after_it() -> None:
    scene = begun_again()
    struck(scene, AGAIN[2])
    stopped(scene, AGAIN[0], AGAIN[1], AGAIN[3])
    report = judge(scene.finish())

    assert told(report) == [
        ("host_oom_cgroup", worker(0), set(RANKS)),
        ("sigkill", AGAIN[2], {AGAIN[0], AGAIN[1], AGAIN[3], LAUNCHER}),
    ]
    assert ("sigkill", "proved") == (primary(report).cause, primary(report).strength)


def test_the_same_failure_once_more_is_told_with_what_it_took_and_the_first_stays_first() -> None:
    scene = begun_again()
    scene.kill(worker(0, 0, AGAIN))
    scene.pass_time(NS_PER_S)
    scene.exit(AGAIN[0], 1 << 8)
    stopped(scene, *AGAIN[1:])
    report = judge(scene.finish())

    assert told(report) == [
        ("host_oom_cgroup", worker(0), set(RANKS)),
        ("host_oom_cgroup", worker(0, 0, AGAIN), {*AGAIN, LAUNCHER}),
    ]
    assert 0 == report.verdict.primary


@pytest.mark.parametrize(("after_s", "cause"), [(5, "host_oom_cgroup"), (120, "sigkill")])
def test_a_rank_that_later_starts_its_loader_again_had_got_over_the_loss_of_a_worker(after_s: int, cause: str) -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(after_s * NS_PER_S)
    scene.exit(worker(0, 1), 0)
    loader(scene, RANKS[0], (508, 509))
    scene.pass_time(NS_PER_S)
    struck(scene, RANKS[2])

    assert cause == primary(judge(scene.finish())).cause


def test_a_hung_job_that_a_human_ends_was_failed_by_the_kill_before_that() -> None:
    scene = begun()
    scene.kill(worker(0))
    scene.pass_time(290 * NS_PER_S)
    struck(scene, LAUNCHER)
    report = judge(scene.finish(root_exit=False))

    assert ["host_oom_cgroup", "sigkill"] == [cause for cause, _, _ in told(report)]
    assert 0 == report.verdict.primary


BLOWS = st.lists(
    st.tuples(
        st.sampled_from([*RANKS, *(worker(rank, number) for rank in range(4) for number in range(2))]),
        st.sampled_from(["oom", "human", "launcher", "itself", "crash", "well"]),
        st.sampled_from([1, NS_PER_MS, 3 * NS_PER_S, 90 * NS_PER_S, WAITED_NS + 1]),
    ),
    max_size=8,
    unique_by=lambda blow: blow[0],
)


@given(blows=BLOWS, status=st.sampled_from([0, 1 << 8]))
def test_whatever_happens_every_end_is_told_once_and_after_what_explains_it(
    blows: list[tuple[int, str, int]], status: int
) -> None:
    scene = begun()
    for pid, how, gap_ns in blows:
        scene.pass_time(gap_ns)
        if how == "oom":
            scene.kill(pid)
        elif how in {"human", "launcher"}:
            struck(scene, pid, **(HUMAN if how == "human" else BY_LAUNCHER))
        elif how == "crash":
            struck(scene, pid, 11, code=1)
        else:
            scene.exit(pid, 0 if how == "well" else 1 << 8)
    incidents = judge(scene.finish(status)).verdict.incidents

    pids = [c.pid for i in incidents for c in i.collateral] + [p.pid for i in incidents for p in i.victims]
    assert len(pids) == len(set(pids))
    # Nobody from elsewhere is made collateral of anything.
    assert {pid for pid, how, _ in blows if how in {"oom", "human"}} <= {p.pid for i in incidents for p in i.victims}
    assert all(" later" in c.how for i in incidents for c in i.collateral)
