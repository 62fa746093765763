# SPDX-License-Identifier: Apache-2.0
"""Rows of the timeline: whose memory, which reclaim, signals and ends are shown, and which of them are collateral."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import DYING_STACK, LAUNCHER, RANK, WORKERS, Scene, changed, start_of
from tracer.events import CgroupSample, JobStarted, ProcessGone, ReclaimSample
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Entry

VICTIM, OTHER, HELPER = WORKERS[2], WORKERS[0], 300
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}
WINDOW_NS = 10 * NS_PER_S


def by(pid: int) -> dict[str, int]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid)}


def job(**begin: Any) -> Scene:
    scene = Scene()
    scene.begin(**begin)
    scene.fork(RANK, LAUNCHER)
    scene.seen(RANK, LAUNCHER, "python3", {"RANK": "0"})
    for pid in WORKERS:
        scene.fork(pid, RANK, comm="pt_data_worker")
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.pass_time(60 * NS_PER_S)
    return scene


def rows(scene: Scene, kind: str, status: int = 1 << 8) -> list[Entry]:
    return [entry for entry in judge(scene.finish(status)).timeline if entry.kind == kind]


def told(scene: Scene, kind: str, status: int = 1 << 8) -> list[tuple[str, str]]:
    return [(entry.who, entry.text) for entry in rows(scene, kind, status)]


def grown(**sizes: int) -> Scene:
    """Memory in MiB by name, from 50 at the fork to this at the kill of worker 2."""
    pids = {"w0": WORKERS[0], "w1": WORKERS[1], "w2": WORKERS[2], "w3": WORKERS[3], "rank": RANK, "helper": HELPER}
    scene = job()
    for name, mib in sizes.items():
        scene.sample(pids[name], mib)
    scene.pass_time(NS_PER_S)
    scene.kill(VICTIM, anon_rss_bytes=sizes.get("w2", 50) * MIB)
    return scene


def test_a_curve_is_for_those_that_grew_at_least_a_quarter_of_the_most() -> None:
    found = told(grown(w2=450, rank=150, helper=149), "memory")

    assert [("rank 0", "50 MiB to 150 MiB, 1.67 MiB/s"), ("worker 2", "50 MiB to 450 MiB, 6.56 MiB/s")] == [
        row for row in found if not row[0].endswith("others")
    ]
    assert ("4 others", "50 MiB to 149 MiB each, grown by 99 MiB at most") in found


def test_who_stayed_flat_is_told_in_one_row() -> None:
    assert ("5 others", "50 MiB each, flat") in told(grown(w2=450), "memory")
    assert ("5 others", "50 MiB to 53 MiB each, flat") in told(grown(w2=450, rank=53), "memory")
    assert ("5 others", "50 MiB to 54 MiB each, grown by 4 MiB at most") in told(grown(w2=450, rank=54), "memory")


def test_at_most_three_have_a_curve() -> None:
    found = rows(grown(w2=450, rank=400, helper=440, w0=150), "memory")

    assert ["helper 300", "rank 0", "worker 2"] == sorted(e.who for e in found if e.series is not None)


def test_a_victim_that_did_not_grow_has_its_curve_too() -> None:
    found = [e for e in rows(grown(w2=50, helper=450), "memory") if e.series is not None]

    assert ["helper 300", "worker 2"] == sorted(e.who for e in found)
    assert "50 MiB to 50 MiB" in [e.text for e in found]


def test_workers_that_grew_alike_are_one_curve_of_their_sum() -> None:
    scene = grown(w0=120, w1=120, w2=120, w3=110)
    (together,) = [e for e in rows(scene, "memory") if e.who == "4 workers"]

    assert together.series is not None
    assert "200 MiB to 470 MiB together, 60 MiB to 70 MiB more each" == together.text
    assert 470 * MIB == together.series.values_bytes[-1]
    (even,) = [e for e in rows(grown(w0=120, w1=120, w2=120, w3=120), "memory") if e.who == "4 workers"]
    assert "200 MiB to 480 MiB together, 70 MiB more each" == even.text
    assert [together.series.last_ns] == [e.at_ns for e in judge(scene.events).timeline if e.kind == "kill"]


def test_pages_that_forks_share_are_not_added_up_to_more_than_there_was() -> None:
    """512 MiB was in use."""
    mib = dict.fromkeys(("w0", "w1", "w2", "w3"), 150)
    (even,) = [e for e in rows(grown(**mib), "memory") if e.who == "4 workers"]

    assert even.text == "50 MiB to 150 MiB each, 100 MiB more"


def usage(*samples: tuple[int, int | None, int]) -> list[Entry]:
    """Rows of the cgroup, from samples (ns before the kill, MiB, id of the cgroup)."""
    scene = job()
    at_ns = scene.now_ns
    for before_ns, mib, cgroup_id in samples:
        value = None if mib is None else mib * MIB
        scene.add(CgroupSample(ts_ns=at_ns - before_ns, path="/x", cgroup_id=cgroup_id, usage_bytes=value))
    scene.kill(VICTIM)
    return [entry for entry in rows(scene, "memory") if entry.who == "cgroup"]


def test_usage_of_the_cgroup_is_told_up_to_its_limit() -> None:
    (entry,) = usage((NS_PER_S, 100, 77), (5, 300, 77), (4, None, 77), (3, 5, 78), (0, 400, 77), (-1, 9, 77))

    assert "100 MiB to 512 MiB of 512 MiB" == entry.text
    assert entry.series is not None
    assert (100 * MIB, 512 * MIB) == (entry.series.values_bytes[0], entry.series.values_bytes[-1])
    assert NS_PER_S == entry.series.last_ns - entry.series.first_ns
    assert (-NS_PER_S, entry.series.first_ns) == (entry.offset_ns, entry.at_ns)


def test_without_readings_of_the_very_cgroup_no_usage_is_told() -> None:
    assert [] == usage()
    assert [] == usage((1, 5, 78), (-1, 5, 77), (1, None, 77))


def reclaimed(*samples: tuple[int, int, tuple[int, int, int, int]], own_cgroup: bool = True) -> list[tuple[str, str]]:
    """Rows of reclaim from samples (ns after the kill, id of the cgroup, counts so far)."""
    scene = job(own_cgroup=own_cgroup)
    at_ns = scene.now_ns
    for after_ns, cgroup_id, (runs, stall_ns, direct, direct_ns) in samples:
        scene.add(
            ReclaimSample(
                ts_ns=at_ns + after_ns, cgroup_id=cgroup_id, memcg_runs=runs, memcg_stall_ns=stall_ns * NS_PER_MS,
                direct_runs=direct, direct_stall_ns=direct_ns * NS_PER_MS,
            )
        )  # fmt: skip
    scene.kill(VICTIM)
    return told(scene, "reclaim")


def test_reclaim_is_what_was_counted_within_ten_seconds_before() -> None:
    at_limit = [("kernel", "4 runs at the limit, tasks stalled 300 ms in all")]

    assert at_limit == reclaimed((-WINDOW_NS - 1, 77, (6, 200, 0, 0)), (0, 77, (10, 500, 0, 0)))
    assert at_limit == reclaimed((-WINDOW_NS, 77, (2, 200, 0, 0)), (NS_PER_S, 77, (4, 300, 0, 0)))
    assert at_limit == reclaimed((-1, 77, (4, 300, 0, 0)), (NS_PER_S + 1, 77, (9, 900, 0, 0)))
    assert at_limit == reclaimed((-2, 77, (1, 100, 0, 0)), (-1, 78, (3, 200, 0, 0)))
    early = ((-3 * WINDOW_NS, 77, (1, 1, 0, 0)), (-2 * WINDOW_NS, 77, (6, 200, 0, 0)))
    assert at_limit == reclaimed(*early, (0, 77, (10, 500, 0, 0)))


def test_reclaim_for_the_machine_is_told_apart() -> None:
    found = reclaimed((-2 * WINDOW_NS, 77, (1, 10, 2, 20)), (0, 77, (2, 20, 5, 50)))

    assert [("kernel", "1 runs at the limit, 3 for the machine, tasks stalled 40.0 ms in all")] == found


def test_reclaim_of_other_cgroups_or_before_is_not_told() -> None:
    assert [] == reclaimed((0, 5, (10, 500, 1, 1)))
    assert [] == reclaimed((-WINDOW_NS - 1, 77, (10, 500, 1, 1)))
    assert [] == reclaimed((0, 77, (0, 0, 0, 0)))


def test_reclaim_is_told_of_a_kill_alone() -> None:
    scene = job()
    scene.add(ReclaimSample(ts_ns=scene.now_ns, cgroup_id=77, memcg_runs=9, memcg_stall_ns=9, direct_runs=0,
                            direct_stall_ns=0))  # fmt: skip
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)

    assert [] == rows(scene, "reclaim")


@pytest.mark.parametrize(("sent", "collateral"), [(by(LAUNCHER), True), (by(HELPER), True), (OUTSIDE, False)])
def test_a_later_signal_is_collateral_only_if_its_target_went_down_with_the_incident(
    sent: dict[str, int], collateral: bool
) -> None:
    scene = job()
    scene.kill(VICTIM)
    scene.signal(OTHER, 15, **sent)
    scene.exit(OTHER, 15)

    assert [collateral] == [entry.collateral for entry in rows(scene, "signal")]
    assert [collateral] == [entry.collateral for entry in rows(scene, "exit") if entry.pid == OTHER]


def test_the_signal_that_began_it_is_primary_and_an_earlier_one_nothing() -> None:
    scene = job()
    scene.signal(RANK, 15, **OUTSIDE)
    scene.pass_time(NS_PER_S)
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)
    found = rows(scene, "signal")

    assert [(False, False), (True, False)] == [(entry.primary, entry.collateral) for entry in found]
    assert ["SIGTERM", "SIGKILL"] == [entry.text.split()[0] for entry in found]


def test_signals_that_ended_nothing_or_belong_to_a_kill_are_not_shown() -> None:
    scene = job()
    scene.signal(OTHER, 11, **OUTSIDE)
    scene.kill(VICTIM)

    assert [] == rows(scene, "signal")


@pytest.mark.parametrize(("sent", "shown"), [(by(RANK), False), (by(HELPER), False), (OUTSIDE, True)])
def test_what_a_job_that_ended_well_stopped_by_itself_is_not_shown(sent: dict[str, int], shown: bool) -> None:
    ended, handled = job(), job()
    ended.signal(OTHER, 15, **sent)
    ended.exit(OTHER, 15)
    handled.signal(OTHER, 15, **sent)
    handled.exit(OTHER, 0)

    assert shown == bool(rows(ended, "signal", 0)) == bool(rows(handled, "signal", 0))
    assert shown == any(entry.pid == OTHER for entry in rows(ended, "exit", 0))


def test_what_a_job_that_failed_stopped_is_shown() -> None:
    scene = job()
    scene.signal(HELPER, 15, **by(LAUNCHER))
    scene.exit(HELPER, 15)

    assert 1 == len(rows(scene, "signal"))


def test_quiet_ends_are_counted() -> None:
    scene = job()
    for pid in WORKERS[:2]:
        scene.exit(pid, 0)
    last_ns = scene.now_ns + 5
    scene.pass_time(5)
    scene.exit(HELPER, 3 << 8)
    one = job()
    one.exit(OTHER, 0)
    found = rows(scene, "exit", 0)

    assert ("3 others", "ended, 1 with a non-zero status", last_ns) == (found[0].who, found[0].text, found[0].at_ns)
    assert ("1 other", "ended quietly") in told(one, "exit", 0)
    assert ("launcher", "exit 0") in told(one, "exit", 0)


def test_of_a_helper_only_a_signal_is_told_and_of_a_rank_its_status() -> None:
    scene = job()
    scene.exit(RANK, 3 << 8)
    scene.exit(HELPER, 3 << 8)
    scene.fork(500, LAUNCHER)
    scene.exit(500, 11)

    assert {("rank 0", "exit 3"), ("python3 500", "signal 11 (SIGSEGV)")} <= set(told(scene, "exit"))
    assert not any(who.startswith("helper") for who, _ in told(scene, "exit"))


def test_an_exit_that_was_only_marked_says_so() -> None:
    scene = job()
    scene.stack(scene.mark(OTHER, RANK), DYING_STACK)
    scene.exit(OTHER, 9, oom_marked=1)
    scene.kill(VICTIM)

    assert ("worker 0", "signal 9 (SIGKILL), marked by the OOM killer") in told(scene, "exit")
    assert ("worker 2", "signal 9 (SIGKILL)") in told(scene, "exit")
    assert [("worker 0", False)] == [(entry.who, entry.outside) for entry in rows(scene, "mark")]


def test_a_mark_of_a_stranger_is_told_as_one() -> None:
    scene = job()
    scene.stack(scene.mark(500, RANK, comm="else"), DYING_STACK)

    assert [("else 500", True)] == [(entry.who, entry.outside) for entry in rows(scene, "mark")]


def test_a_process_that_vanished_is_told_unless_its_exit_was_seen() -> None:
    scene = job()
    for pid in WORKERS[:2]:
        scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=pid, start_ns=start_of(pid)))
    scene.exit(WORKERS[1], 0)

    assert [("worker 0", "vanished; how it ended was not seen")] == told(scene, "gone")


def test_a_kill_is_told_with_what_the_victim_held() -> None:
    full, bare = job(), job()
    full.kill(VICTIM, shmem_rss_bytes=3 * MIB, swap_bytes=4 * MIB)
    bare.kill(VICTIM, anon_rss_bytes=0, file_rss_bytes=0)

    assert [("worker 2", "402 MiB anonymous, 5 MiB file, 3 MiB shared, 4 MiB swapped")] == told(full, "kill")
    assert [("worker 2", "0 B anonymous")] == told(bare, "kill")


def test_of_kills_outside_the_nearest_is_told_with_the_number_of_the_others() -> None:
    scene = job()
    for pid, after_ns in ((500, 0), (501, 30 * NS_PER_S), (502, 40 * NS_PER_S)):
        if pid == 502:
            scene.pass_time(-2 * NS_PER_S)
            scene.kill(VICTIM)
            scene.pass_time(2 * NS_PER_S)
        scene.pass_time(after_ns)
        scene.oom_signal(pid, pid, in_tree=0)
        mark = scene.mark(pid, pid, comm="else")
        scene.level(mark, 0, name="", cgroup_id=1, events_local_oom=0)
        scene.stack(mark)
    found = [entry for entry in rows(scene, "kill") if entry.pid != VICTIM]

    assert [("else 501", "killed, and 2 more", True)] == [(e.who, e.text, e.outside) for e in found]


def test_of_many_victims_the_last_is_told_with_the_number_left_out() -> None:
    scene = job()
    for pid in range(1000, 1009):
        scene.fork(pid, LAUNCHER)
    at_ns = scene.now_ns
    for place, pid in enumerate(range(1000, 1009)):
        scene.now_ns = at_ns + place * 100 * NS_PER_MS
        scene.kill(pid)
    found = told(scene, "kill")

    assert ("3 more", "for the same shortage, the last 800 ms after the first") in found
    assert 7 == len(found)
    assert not any(entry.pid in {1006, 1007, 1008} for entry in rows(scene, "exit"))


def test_a_job_without_a_command_is_told_as_the_job() -> None:
    scene = job()
    started = [("launcher", "torchrun train.py")]
    nameless = changed(scene.events, JobStarted, argv=None)

    assert started == told(scene, "start")
    assert ["the job"] == [entry.text for entry in judge(nameless).timeline if entry.kind == "start"]
