# SPDX-License-Identifier: Apache-2.0
"""What is said of two runs: fixed, reduced, unchanged, worse; and above all when it cannot be told."""

import msgspec
import pytest

from tests.unit.verdict.comparison.growing import LIMIT, Growing, run
from tests.unit.verdict.scenes import RANK
from tracer.events import Losses
from tracer.units import MIB
from tracer.verdict.comparison import compare, judged

EPOCH_S = 10


def leak(mib_per_epoch, base=200):
    return lambda at_s: (base + mib_per_epoch * at_s / EPOCH_S) * MIB


def compared(before, after):
    return compare(judged(before.events), judged(after.events))


@pytest.fixture(scope="module")
def before():
    """100 MiB an epoch, killed after eight of them."""
    return run(leak(100), seconds=200, epoch_s=EPOCH_S)


def test_no_growth_for_as_long_is_fixed_and_bounded(before):
    found = compared(before, run(leak(0), seconds=100, epoch_s=EPOCH_S))

    assert (found.outcome, found.basis, found.aligned.unit) == ("fixed", "growth", "epoch")
    assert found.before.killed
    assert not found.after.killed
    assert found.left_at_most_bytes < 5 * MIB
    assert found.left_at_most_share < 0.05
    assert "100 MiB per epoch" in found.statement


def test_less_growth_is_reduced_by_how_much(before):
    found = compared(before, run(leak(30), seconds=100, epoch_s=EPOCH_S))

    assert found.outcome == "reduced"
    assert found.ratio.low <= 0.3 <= found.ratio.high
    assert "Reduced by 70 %" in found.statement


def test_the_same_growth_is_unchanged_and_more_is_worse(before):
    assert compared(before, run(leak(100), seconds=60, epoch_s=EPOCH_S)).outcome == "unchanged"
    assert compared(before, run(leak(200), seconds=30, epoch_s=EPOCH_S)).outcome == "worse"


def test_another_pace_does_not_matter_where_epochs_are_known(before):
    slower = run(lambda at_s: (200 + 100 * at_s / 30) * MIB, seconds=200, epoch_s=30)

    assert compared(before, slower).outcome == "unchanged"


def test_by_time_alone_half_the_pace_is_not_called_less():
    one, two = (run(lambda at_s, s=s: (200 + s * at_s) * MIB, seconds=300) for s in (10, 6))

    assert compared(one, two).outcome in {"unchanged", "cannot_tell"}


def test_a_run_that_ends_before_the_growth_came_cannot_be_told():
    late = run(lambda at_s: (200 + max(0, at_s - 40) * 20) * MIB, seconds=200, epoch_s=EPOCH_S)
    found = compared(late, run(leak(0), seconds=30, epoch_s=EPOCH_S))

    assert found.outcome == "cannot_tell"
    assert found.need.units > 3
    assert "more of AFTER" in found.statement


def test_a_step_that_comes_once_an_epoch_is_not_missed_by_a_run_of_half_an_epoch():
    stairs = run(lambda at_s: (200 + 100 * (at_s // EPOCH_S)) * MIB, seconds=200, epoch_s=EPOCH_S)
    found = compared(stairs, run(leak(0), seconds=6, epoch_s=EPOCH_S))

    assert found.outcome == "cannot_tell"


def test_one_epoch_is_enough_where_memory_grew_within_each(before):
    found = compared(before, run(leak(0), seconds=12, epoch_s=EPOCH_S, every_s=0.5))

    assert found.outcome == "fixed"
    assert found.after.covered < found.before.covered / 4


def test_workers_that_restart_are_no_growth(before):
    saw = run(lambda at_s: (200 + 30 * (at_s % EPOCH_S) / EPOCH_S) * MIB, seconds=100, epoch_s=EPOCH_S)

    assert compared(before, saw).outcome == "fixed"


def test_who_was_killed_again_is_never_fixed(before):
    flat = run(lambda at_s: (200 if at_s < 95 else 2000) * MIB, seconds=100, epoch_s=EPOCH_S)

    assert flat.items
    found = compared(before, flat)
    assert found.after.killed
    assert found.outcome != "fixed"


def test_a_worker_that_was_killed_counts_though_the_job_came_through(before):
    scene = Growing()
    scene.job()
    for at_s in range(1, 100):
        scene.say(at_s, epoch=at_s // 10 + 1, step=0)
        scene.holds(at_s + 0.01, 200 * MIB)
        if at_s == 90:
            scene.kill()
    scene.ends(100)

    assert compared(before, scene).outcome != "fixed"


def test_an_end_that_nobody_explains_is_never_fixed(before):
    scene = run(leak(0), seconds=100, epoch_s=EPOCH_S)
    scene.items = [e for e in scene.items if type(e).__name__ not in {"JobEnded", "Disarmed", "Losses"}]
    scene.at(110)
    scene.signal(RANK, 9)
    scene.exit(RANK, 9)
    scene.ends(110, 9)

    assert compared(before, scene).outcome == "cannot_tell"


def test_where_events_of_the_second_run_were_lost_it_is_never_fixed(before):
    scene = run(leak(0), seconds=100, epoch_s=EPOCH_S)
    scene.add(Losses(ts_ns=scene.now_ns, source="tracer", dropped={"oom_mark": 1}))
    found = compared(before, scene)

    assert found.outcome == "cannot_tell"
    assert "may be missing" in found.statement


def test_a_level_that_nobody_looked_at_is_no_level(before):
    scene = run(leak(0), seconds=100, epoch_s=EPOCH_S)
    quiet = [e for e in scene.items if type(e).__name__ != "CgroupSample" or e.ts_ns - scene.items[0].ts_ns < 20e9]
    scene.items = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(quiet)]

    assert compared(before, scene).outcome == "cannot_tell"


def test_a_raised_limit_takes_no_growth_away(before):
    found = compared(before, run(leak(100), seconds=100, epoch_s=EPOCH_S, limit_bytes=4 * LIMIT))

    assert found.outcome == "unchanged"
    assert any("takes no growth away" in text for text in found.differences)


def test_a_job_that_did_not_grow_gives_nothing_to_compare_with():
    found = compared(*(run(leak(0), seconds=100, epoch_s=EPOCH_S) for _ in range(2)))

    assert found.outcome == "cannot_tell"
    assert "no growth" in found.statement


def jump(at_s, to=2000):
    return lambda now_s: (300 if now_s < at_s else to) * MIB


def test_a_jump_that_is_gone_is_fixed_once_its_place_is_passed():
    spike = run(jump(50), seconds=100, epoch_s=EPOCH_S)
    beyond, short = (run(jump(1e9), seconds=s, epoch_s=EPOCH_S) for s in (70, 40))

    assert (compared(spike, beyond).outcome, compared(spike, beyond).basis) == ("fixed", "peak")
    assert compared(spike, short).outcome == "cannot_tell"
    assert compared(spike, run(jump(52), seconds=100, epoch_s=EPOCH_S)).outcome == "unchanged"


def test_a_jump_that_fits_by_a_raised_limit_alone_says_so():
    spike = run(jump(50), seconds=100, epoch_s=EPOCH_S)
    fits = run(jump(1e9), seconds=100, epoch_s=EPOCH_S, limit_bytes=2 * LIMIT)
    found = compared(spike, fits)

    assert found.outcome != "fixed" or (found.basis == "limit" and "limit alone" in found.statement)


def test_killed_before_it_trained_is_fixed_where_the_next_run_trains_and_held_far_less():
    loading = Growing()
    loading.alone()
    for at_s in range(1, 10):
        loading.holds(at_s, 99 * at_s * MIB)
    loading.at(9.5)
    loading.kill(RANK, comm="python3")
    loading.ends(9.6, 9)

    assert compared(loading, run(leak(0), seconds=30, epoch_s=EPOCH_S)).outcome == "fixed"
    assert compared(loading, run(leak(0, base=900), seconds=30, epoch_s=EPOCH_S)).outcome != "fixed"
    assert compared(loading, run(leak(0), seconds=0.5, epoch_s=EPOCH_S, start_s=20)).outcome == "cannot_tell"


def test_whose_memory_nobody_saw_cannot_be_compared(before):
    scene = Growing()
    scene.alone()
    scene.ends(100)

    assert compared(before, scene).outcome == "cannot_tell"
    assert compared(scene, before).outcome == "cannot_tell"


def test_where_one_of_the_two_had_no_look_at_its_cgroup_both_are_sums_over_processes(before):
    scene = Growing()
    scene.alone()
    for second in range(1, 100):
        scene.at(second)
        scene.sample(RANK, 100 + second)
    scene.ends(100)

    for one, two in ((before, scene), (scene, before)):
        found = compared(one, two)
        sides = (found.before, found.after)
        assert not any(side.of.startswith("cgroup") for side in sides if side.level_bytes is not None)
