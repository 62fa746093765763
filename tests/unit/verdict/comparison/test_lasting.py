# SPDX-License-Identifier: Apache-2.0
"""Growth that is still there where a robust trend does not show it: late, slow, elsewhere, or behind the last mark."""

import math

import msgspec
import pytest

from tests.unit.verdict.comparison.growing import Growing, run
from tests.unit.verdict.scenes import RANK, start_of
from tracer.events import EndAsked, PressureSample, ProcessSample
from tracer.units import GIB, MIB, TICK_NS
from tracer.verdict.comparison import compare, judged

EPOCH_S = 10
SECONDS = 100


def leak(mib_per_epoch, base=200):
    return lambda at_s: (base + mib_per_epoch * at_s / EPOCH_S) * MIB


def late(from_s):
    return lambda at_s: (200 + max(0, at_s - from_s) * 10) * MIB


def flat(_):
    return 200


@pytest.fixture(scope="module")
def before():
    """100 MiB an epoch, killed after eight of them."""
    return judged(run(leak(100), seconds=200, epoch_s=EPOCH_S).events)


@pytest.fixture(scope="module")
def summed():
    """The same without a cgroup."""
    return judged(after(processes=lambda at_s: 150 + 8 * at_s, cgroup=None).events)


def after(*, processes=None, cgroup=flat, swap=None, machine=None):
    """Ten epochs; each of these says how many MiB there are after so many seconds."""
    scene = Growing()
    scene.alone()
    for at_s in range(1, SECONDS):
        scene.say(at_s, epoch=at_s // EPOCH_S + 1, step=at_s % EPOCH_S)
        if cgroup is not None:
            scene.holds(at_s + 0.01, cgroup(at_s) * MIB)
        if processes is not None:
            start_ns = start_of(RANK) // TICK_NS * TICK_NS
            scene.add(
                ProcessSample(ts_ns=scene.now_ns + 1, source="proc", start_ns=start_ns, tgid=RANK, comm="python3",
                              rss_anon_bytes=processes(at_s) * MIB, rss_file_bytes=0, rss_shmem_bytes=0,
                              swap_bytes=0 if swap is None else swap(at_s) * MIB)
            )  # fmt: skip
        if machine is not None:
            grown = machine(at_s) * MIB
            scene.add(
                PressureSample(ts_ns=scene.now_ns + 2, source="proc", mem_total_bytes=64 * GIB, shmem_bytes=grown,
                               mem_available_bytes=32 * GIB - grown)
            )  # fmt: skip
    scene.ends(SECONDS)
    return scene


def compared(before, scene):
    return compare(before, judged(scene.events))


def ask_to_end(scene, at_s):
    scene.at(at_s)
    scene.add(EndAsked(ts_ns=scene.now_ns, source="job", why="it is time", signal=15, tracer_tgid=99))


def in_time_order(scene):
    scene.items.sort(key=lambda event: event.ts_ns)
    scene.items = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(scene.items)]


@pytest.mark.parametrize("share", [0.05, 0.02])
def test_a_leak_that_is_slower_by_far_is_reduced_and_not_fixed(before, share):
    found = compared(before, run(leak(100 * share), seconds=10 / share, epoch_s=EPOCH_S))

    assert found.outcome == "reduced"
    assert "grows on" in found.statement


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("seconds", [100, 200, 400])
@pytest.mark.parametrize("epoch_s", [EPOCH_S, None])
def test_a_leak_that_starts_late_is_not_fixed(share, seconds, epoch_s):
    one = judged(run(leak(100), seconds=200, epoch_s=epoch_s).events)

    assert compared(one, run(late(share * seconds), seconds=seconds, epoch_s=epoch_s)).outcome != "fixed"


def test_a_leak_that_goes_on_behind_the_last_mark_is_not_fixed(before):
    scene = Growing()
    scene.alone()
    for at_s in range(1, 300):
        if at_s < 120:
            scene.say(at_s, epoch=at_s // EPOCH_S + 1, step=at_s % EPOCH_S)
        scene.holds(at_s + 0.01, (200 + max(0, at_s - 120) * 4) * MIB)
    scene.ends(300)

    assert compared(before, scene).outcome == "cannot_tell"


def test_a_leak_behind_the_end_of_a_worker_is_not_fixed(before):
    scene = Growing()
    scene.alone()
    scene.worker(9000, 1.5, 215)
    for at_s in range(1, 300):
        if at_s % EPOCH_S == 0:
            scene.say(at_s, epoch=at_s // EPOCH_S + 1)
        scene.holds(at_s + 0.01, (200 + max(0, at_s - 215) * 8) * MIB)
    in_time_order(scene)
    scene.ends(300)

    assert compared(before, scene).outcome == "cannot_tell"


def test_what_a_job_takes_to_end_is_no_growth(before):
    scene = run(leak(0), seconds=SECONDS, epoch_s=EPOCH_S)
    scene.items = [e for e in scene.items if type(e).__name__ not in {"JobEnded", "Disarmed", "Losses"}]
    for at_s in range(5):
        scene.holds(103 + at_s, (200 + 60 * at_s) * MIB)
    scene.ends(109)

    assert compared(before, scene).outcome == "fixed"


@pytest.mark.parametrize(
    "scene",
    [
        after(processes=lambda at_s: 150 + 10 * at_s),
        after(processes=flat, swap=lambda at_s: 8 * at_s),
        after(processes=flat, swap=lambda at_s: 3 * at_s),
    ],
    ids=["another cgroup", "swap", "a part of it into swap"],
)
def test_growth_of_processes_that_their_cgroup_does_not_show_is_not_fixed(before, scene):
    found = compared(before, scene)

    assert found.outcome == "cannot_tell"
    assert "another cgroup, or in swap" in found.statement


def test_processes_that_are_level_as_their_cgroup_is_are_fixed(before):
    assert compared(before, after(processes=flat)).outcome == "fixed"


def test_a_cgroup_that_nobody_could_look_at_any_more_is_not_level(before):
    scene = after(machine=flat)
    scene.items = [
        event
        for event in scene.items
        if type(event).__name__ != "CgroupSample" or event.ts_ns - scene.items[0].ts_ns < 20e9
    ]
    in_time_order(scene)

    assert compared(before, scene).outcome == "cannot_tell"


def test_shared_memory_that_grows_beside_a_sum_over_processes_is_not_fixed(summed):
    assert compared(summed, after(processes=flat, cgroup=None)).outcome == "fixed"
    assert compared(summed, after(processes=flat, cgroup=None, machine=lambda at_s: 10 * at_s)).outcome == "cannot_tell"


def test_memory_of_the_machine_that_goes_meanwhile_is_told(before):
    found = compared(before, after(machine=lambda at_s: 10 * at_s))

    assert found.outcome == "fixed"
    assert any("available memory fell" in text for text in found.caveats)
    assert not any("available memory" in text for text in compared(before, after(machine=flat)).caveats)


def test_one_cgroup_and_no_cgroup_at_all_are_not_compared(before, summed):
    assert compared(before, after(processes=flat, cgroup=None)).outcome == "cannot_tell"
    assert compared(summed, run(leak(0), seconds=SECONDS, epoch_s=EPOCH_S)).outcome == "cannot_tell"


def test_who_never_came_to_train_is_not_fixed(before):
    assert compared(before, run(leak(0), seconds=400)).outcome == "cannot_tell"


def test_a_rank_that_was_killed_by_nobody_knows_whom_is_not_fixed_though_the_job_went_on(before):
    scene = after()
    scene.items = [e for e in scene.items if type(e).__name__ not in {"JobEnded", "Disarmed", "Losses"}]
    scene.at(50)
    scene.signal(RANK, 9)
    scene.exit(RANK, 9)
    in_time_order(scene)
    scene.ends(SECONDS)

    assert compared(before, scene).outcome == "cannot_tell"


@pytest.mark.parametrize("works", [True, False])
def test_who_did_nothing_for_most_of_its_time_is_not_fixed_by_time(works):
    one = judged(run(leak(200), seconds=60).events)
    scene = run(leak(0), seconds=200)
    scene.items = [e for e in scene.items if type(e).__name__ not in {"JobEnded", "Disarmed", "Losses"}]
    for at_s in range(1, 200 if works else 20):
        scene.at(at_s + 0.5)
        scene.sample(RANK, 150 + at_s % 2)
    in_time_order(scene)
    ask_to_end(scene, 202.9)
    scene.ends(203, status=15)
    found = compared(one, scene)

    assert (found.outcome == "fixed") is works, found.statement


@pytest.mark.parametrize(("seconds", "asked", "fixed"), [(20, False, True), (20, True, False), (60, True, True)])
def test_who_waits_where_the_other_was_killed_as_it_started_is_not_fixed(seconds, asked, fixed):
    loading = Growing()
    loading.alone()
    for at_s in range(1, 10):
        loading.holds(at_s, 99 * at_s * MIB)
    loading.at(9.5)
    loading.kill(RANK, comm="python3")
    loading.ends(9.6, 9)
    scene = Growing()
    scene.alone()
    for at_s in range(1, seconds):
        scene.holds(at_s, 200 * MIB)
    if asked:
        ask_to_end(scene, seconds)
    scene.ends(seconds, 15 if asked else 0)

    assert (compared(judged(loading.events), scene).outcome == "fixed") is fixed


@pytest.mark.parametrize("starts", [2, 3])
def test_starts_of_workers_for_validation_are_no_less_growth(starts):
    def trains(each_epoch, seconds):
        scene = Growing()
        scene.alone()
        for number in range(seconds * each_epoch // EPOCH_S):
            began_s = 1.2 + number * EPOCH_S / each_epoch
            scene.worker(5000 + number, began_s, began_s + EPOCH_S / each_epoch - 0.5)
        for at_s in range(1, seconds):
            scene.holds(at_s + 0.01, (200 + 10 * at_s) * MIB)
        in_time_order(scene)
        scene.ends(seconds)
        return scene

    found = compared(judged(trains(1, 70).events), trains(starts, 70))

    assert found.aligned.unit == "worker_start"
    assert found.outcome == "cannot_tell"


@pytest.mark.parametrize("times", [2, 16, 1000])
def test_steps_that_are_smaller_are_no_less_growth(times):
    def steps(each_s, seconds):
        scene = Growing()
        scene.alone()
        for at_s in range(1, seconds):
            scene.say(at_s, step=at_s * each_s)
            scene.holds(at_s + 0.01, (200 + 10 * at_s) * MIB)
        scene.ends(seconds)
        return scene

    found = compared(judged(steps(1, 75).events), steps(times, 79))

    assert found.outcome == "cannot_tell"


@pytest.mark.parametrize("number", [math.inf, math.nan, -5.0, 1e308, 2.0**70])
@pytest.mark.parametrize("name", ["epoch", "step", "steps", "epochs"])
def test_numbers_that_count_nothing_are_no_marks(before, name, number):
    scene = run(leak(80), seconds=70, epoch_s=EPOCH_S)
    for at_s in range(5, 70, 9):
        scene.say(2 + at_s, **({"epoch": at_s // EPOCH_S + 1, "step": at_s} | {name: number}))
    in_time_order(scene)

    assert compared(before, scene).outcome not in {"fixed", "reduced"}
