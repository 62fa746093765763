# SPDX-License-Identifier: Apache-2.0
"""Whose memory grew: what counts as growth, over which time, and when a process, a role or shared memory is named."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, start_of
from tracer.events import ProcessExeced, ProcessGone, ProcessSample
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.growth import (
    Growth,
    culprit,
    growths,
    resample,
    role_group,
    shmem_growth,
    together,
    unreclaimable_bytes,
)
from tracer.verdict.kills import find_kills
from tracer.verdict.model import Culprit
from tracer.verdict.story import Story

AFTER_NS = 250 * NS_PER_MS
WINDOW_NS = 300 * NS_PER_S


def job() -> Scene:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    return scene


def of(scene: Scene, pid: int, until_ns: int | None = None, *, killed: bool = False) -> Growth | None:
    story = Story(scene.events)
    kills = find_kills(story).kills if killed else ()
    found = growths(story, scene.now_ns if until_ns is None else until_ns, kills)
    return next((g for g in found if g.id == identity(pid)), None)


def points(scene: Scene, pid: int, until_ns: int | None = None, *, killed: bool = False) -> list[tuple[int, int]]:
    """Times relative to the scene's now, sizes in MiB."""
    grown = of(scene, pid, until_ns, killed=killed)
    return [] if grown is None else [(ts_ns - scene.now_ns, size // MIB) for ts_ns, size in grown.points]


def grown(pid: int, mib: float) -> Growth:
    return Growth(
        id=identity(pid), first_ns=NS_PER_S, last_ns=2 * NS_PER_S, first_bytes=0, last_bytes=int(mib * MIB), points=()
    )


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"rss_anon_bytes": 8, "rss_shmem_bytes": 4, "swap_bytes": 2, "rss_file_bytes": 1}, 14),
        ({"rss_anon_bytes": 8}, 8),
        ({"rss_shmem_bytes": 4, "swap_bytes": 2}, None),
    ],
)
def test_unreclaimable_is_anonymous_shared_and_swapped(fields: dict[str, int], size: int | None) -> None:
    assert size == unreclaimable_bytes(ProcessSample(ts_ns=0, start_ns=0, tgid=1, **fields))  # type: ignore[arg-type]


def test_a_rate_is_the_mean_over_a_span_that_is_long_enough() -> None:
    def over(span_ns: int) -> Growth:
        return Growth(id=identity(1), first_ns=7, last_ns=7 + span_ns, first_bytes=10, last_bytes=30, points=())

    assert (200.0, None, 10.0) == tuple(over(ns).rate_bytes_per_s for ns in (NS_PER_S // 10, 99_999_999, 2 * NS_PER_S))


def test_a_series_holds_the_last_value_known_at_each_even_step() -> None:
    values = resample([(10, 1), (12, 2), (20, 3)], 0, 40, 5).values_bytes

    assert (None, 1, 3, 3, 3) == values
    assert (None, 1) == resample([(10, 1), (12, 2)], 9, 11, 2).values_bytes
    assert (None, 2) == resample([(10, 1), (11, 2)], 9, 11, 2).values_bytes
    assert (7,) == resample([(0, 7)], 0, 40, 1).values_bytes
    whole = Growth(id=identity(1), first_ns=0, last_ns=23, first_bytes=0, last_bytes=0, points=((0, 1), (23, 2)))
    assert (24, 1, 2) == (len(whole.series().values_bytes), *whole.series().values_bytes[-2:])
    assert (0, 23) == (whole.series().first_ns, whole.series().last_ns)


def test_a_fork_begins_with_what_its_parent_shared() -> None:
    scene = job()
    scene.fork(600, RANK)
    scene.pass_time(NS_PER_S)
    scene.sample(600, 70)

    assert [(-NS_PER_S, 50), (0, 70)] == points(scene, 600)
    found = of(scene, 600)
    assert found is not None
    assert (20 * MIB, scene.now_ns - NS_PER_S, scene.now_ns) == (found.grown_bytes, found.first_ns, found.last_ns)
    scene.pass_time(WINDOW_NS - NS_PER_S)
    assert [50, 70] == [mib for _, mib in points(scene, 600)]
    scene.pass_time(1)
    assert [70] == [mib for _, mib in points(scene, 600)]


def test_an_exec_throws_away_what_was_before() -> None:
    scene = job()
    scene.fork(600, RANK)
    scene.sample(600, 500)
    scene.pass_time(NS_PER_S)
    scene.add(ProcessExeced(ts_ns=scene.now_ns, cpu=0, start_ns=start_of(600), tgid=600, old_tid=600, comm="x"))
    scene.sample(600, 5)
    scene.pass_time(NS_PER_S)
    scene.sample(600, 9)

    assert [(-NS_PER_S, 5), (0, 9)] == points(scene, 600)


def test_an_exec_after_the_moment_changes_nothing_before_it() -> None:
    scene = job()
    scene.sample(WORKERS[0], 60)
    at_ns = scene.now_ns
    scene.pass_time(1)
    pid = WORKERS[0]
    scene.add(ProcessExeced(ts_ns=scene.now_ns, cpu=0, start_ns=start_of(pid), tgid=pid, old_tid=pid, comm="x"))

    assert [(-1, 60)] == points(scene, pid, at_ns)
    assert [] == points(scene, pid)


def test_growth_is_over_five_minutes_at_most_and_within_the_job() -> None:
    scene = job()
    scene.sample(LAUNCHER, 1)
    scene.pass_time(1)
    scene.sample(LAUNCHER, 2)
    scene.pass_time(WINDOW_NS)
    scene.sample(LAUNCHER, 3)

    assert [(-WINDOW_NS, 2), (0, 3)] == points(scene, LAUNCHER)


def test_what_was_before_the_job_is_not_its_growth() -> None:
    scene = job()
    scene.pass_time(-2 * NS_PER_S)
    scene.sample(LAUNCHER, 1)
    scene.pass_time(4 * NS_PER_S)
    scene.sample(LAUNCHER, 3)

    assert [(0, 3)] == points(scene, LAUNCHER)


@pytest.mark.parametrize(("after_ns", "counts"), [(1, True), (AFTER_NS, True), (AFTER_NS + 1, False)])
def test_a_sample_just_after_the_moment_is_the_last_value_of_a_survivor(after_ns: int, counts: bool) -> None:
    scene = job()
    scene.sample(LAUNCHER, 1)
    for mib in (2, 3):
        scene.pass_time(after_ns if mib == 2 else 0)
        scene.sample(LAUNCHER, mib)

    at_ns = scene.now_ns - after_ns
    assert [(-after_ns, 1), *([(-after_ns, 2)] if counts else [])] == points(scene, LAUNCHER, at_ns)


def test_samples_without_anonymous_memory_are_skipped() -> None:
    scene = job()
    blank = ProcessSample(ts_ns=scene.now_ns, source="proc", start_ns=start_of(LAUNCHER), tgid=LAUNCHER)
    scene.add(blank)
    scene.sample(LAUNCHER, 2)
    scene.pass_time(1)
    scene.add(ProcessSample(ts_ns=scene.now_ns, source="proc", start_ns=start_of(LAUNCHER), tgid=LAUNCHER))
    scene.sample(LAUNCHER, 3)

    assert [(-1, 2), (-1, 3)] == points(scene, LAUNCHER, scene.now_ns - 1)


def test_the_mark_gives_the_last_value_of_a_victim() -> None:
    scene = job()
    scene.sample(RANK, 60)
    scene.pass_time(1)
    scene.kill(RANK, anon_rss_bytes=4 * MIB, shmem_rss_bytes=2 * MIB, swap_bytes=1 * MIB)
    scene.sample(RANK, 1)
    at_ns = scene.now_ns - 3_040_000

    assert [60, 7] == [mib for _, mib in points(scene, RANK, at_ns, killed=True)]
    assert [60] == [mib for _, mib in points(scene, RANK, at_ns - 1, killed=True)]


def test_only_those_that_were_there_at_the_moment_have_grown() -> None:
    scene = job()
    for pid in WORKERS:
        scene.sample(pid, 50)
    scene.exit(WORKERS[0], 0)
    scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=WORKERS[1], start_ns=start_of(WORKERS[1])))
    scene.pass_time(1)
    scene.exit(WORKERS[2], 0)
    scene.fork(600, RANK)
    at_ns = scene.now_ns

    assert [False, False, True, True] == [of(scene, pid, at_ns - NS_PER_MS) is not None for pid in WORKERS]
    assert of(scene, 600, at_ns) is not None
    assert of(scene, 600, at_ns - 1) is None
    assert of(scene, WORKERS[0], at_ns - NS_PER_MS - 1) is not None


def test_the_most_grown_comes_first_and_of_equals_the_first_pid() -> None:
    scene = job()
    for pid, mib in zip(WORKERS, (50, 70, 90, 50), strict=True):
        scene.sample(pid, mib)
    found = growths(Story(scene.events), scene.now_ns)

    assert [WORKERS[n] for n in (2, 1, 0, 3)] == [g.id.tgid for g in found]


@pytest.mark.parametrize(
    ("sizes", "shared_mib", "named"),
    [
        ((8,), 0, True),
        ((7.99,), 0, False),
        ((60, 40), 0, True),
        ((59.9, 40.1), 0, False),
        ((60, 20, 20), 0, True),
        ((60, 39, -30), 0, True),
        ((60,), 40, True),
        ((60,), 40.1, False),
        ((60, 20), 40.1, False),
        ((-5, -9), 0, False),
        ((), 9, False),
    ],
)
def test_a_culprit_has_most_of_all_growth(sizes: tuple[float, ...], shared_mib: float, named: bool) -> None:
    found = [grown(pid, mib) for pid, mib in zip(WORKERS, sizes, strict=False)]
    named_one = culprit(Story(job().events), found, int(shared_mib * MIB))

    assert named == isinstance(named_one, Culprit)
    assert named_one is None or WORKERS[0] == named_one.pid


def test_a_culprit_is_told_with_what_the_others_grew() -> None:
    story = Story(job().events)
    alone, of_three = (
        culprit(story, [grown(RANK, 60)]),
        culprit(story, [grown(RANK, 60), grown(LAUNCHER, 10), grown(WORKERS[0], -5)]),
    )

    assert alone is not None
    assert of_three is not None
    assert "60 MiB more in 1.0 s" == alone.why
    of_two = culprit(story, [grown(RANK, 60), grown(LAUNCHER, 10)])
    assert of_two is not None
    assert "60 MiB more in 1.0 s; the other process of the job 10 MiB" == of_two.why
    assert "60 MiB more in 1.0 s; the other 2 processes of the job together 10 MiB" == of_three.why


def over_time(pid: int, *sizes_mib: int) -> Growth:
    """One reading a second."""
    points = tuple((second * NS_PER_S, size * MIB) for second, size in enumerate(sizes_mib))
    (first_ns, first), (last_ns, last) = points[0], points[-1]
    return Growth(
        id=identity(pid), first_ns=first_ns, last_ns=last_ns, first_bytes=first, last_bytes=last, points=points
    )


@pytest.mark.parametrize(
    ("leaking", "others", "named"),
    [
        ((0, 0, 0, 300, 600), [(0, 180, 200, 200, 200)] * 4, True),
        ((0, 0, 0, 300, 590), [(0, 180, 200, 200, 200)] * 4, False),  # not three times what another one grew
        ((0, 500, 600, 600, 600), [(0, 180, 200, 200, 200)] * 4, False),  # it grew at the beginning as well
        ((0, 0, 0, 300, 600), [(0, 0, 0, 100, 200)] * 4, False),  # and so did the others towards the end
        ((0, 0, 0, 300, 600), [(0, 0, 75, 100, 200)] * 3 + [(0, 200, 200, 200, 200)], True),
        ((0, 0, 0, 300, 600), [(0, 0, 75, 100, 200)] * 4 + [(0, 200, 200, 200, 200)], False),
    ],
)
def test_where_all_grew_as_they_began_the_culprit_leads_and_outweighs_them_later(
    leaking: tuple[int, ...], others: list[tuple[int, ...]], named: bool
) -> None:
    found = [over_time(WORKERS[0], *leaking)]
    found += [over_time(WORKERS[0] + 1 + place, *sizes) for place, sizes in enumerate(others)]
    told = culprit(Story(job().events), sorted(found, key=lambda g: -g.grown_bytes))

    assert (WORKERS[0] if named else None) == (told and told.pid)


def test_a_culprit_of_the_second_half_is_told_with_what_the_others_grew_in_it() -> None:
    found = [over_time(WORKERS[0], 0, 0, 0, 300, 600), *[over_time(p, 0, 150, 180, 190, 200) for p in (1, 2, 3)]]
    told = culprit(Story(job().events), found)

    assert told is not None
    assert (
        "600 MiB more in 4.0 s; the other 3 processes of the job together 600 MiB, 60 MiB of it in the last 2.0 s"
        == told.why
    )


@pytest.mark.parametrize(
    ("sizes", "shared_mib", "words"),
    [
        ((30, 20), 0, "2 DataLoader workers alike, 20 MiB to 30 MiB more each"),
        ((20, 20, 20), 0, "3 DataLoader workers alike, 20 MiB more each"),
        ((40, 20), 0, "2 DataLoader workers alike"),
        ((41, 20), 0, None),
        ((8, 8), 0, "2 DataLoader workers alike"),
        ((8, 7.9), 0, None),
        ((40,), 0, None),
        ((), 8, "shared memory and tmpfs"),
        ((), 7.9, None),
        ((40,), 60, "shared memory and tmpfs"),
        ((40,), 59, None),
        ((40, -90), 59, None),
        ((40, -90), 60, "shared memory and tmpfs"),
        ((40, 20, -90), 0, "2 DataLoader workers alike"),
    ],
)
def test_workers_or_shared_memory_are_named_together(
    sizes: tuple[float, ...], shared_mib: float, words: str | None
) -> None:
    found = [grown(pid, mib) for pid, mib in zip(WORKERS, sizes, strict=False)]
    text = together(Story(job().events), found, int(shared_mib * MIB))

    assert (words is None) == (text is None)
    assert words is None or (text is not None and text.startswith(words))


@pytest.mark.parametrize(("rest_mib", "named"), [(40, True), (41, False)])
def test_a_role_is_named_only_with_most_of_all_growth(rest_mib: int, named: bool) -> None:
    found = [grown(LAUNCHER, rest_mib), grown(WORKERS[0], 30), grown(WORKERS[1], 30)]

    assert named == (together(Story(job().events), found) is not None)


def test_ranks_that_grew_alike_are_named_as_ranks() -> None:
    scene = job()
    scene.fork(600, LAUNCHER)
    scene.seen(600, LAUNCHER, "python3", {"RANK": "1"})
    story = Story(scene.events)
    found = [grown(RANK, 30), grown(600, 20), grown(WORKERS[0], 20)]

    assert "2 ranks alike, 20 MiB to 30 MiB more each; none stands out" == together(story, found)
    assert [RANK, 600] == [g.id.tgid for g in role_group(story, found, "rank")]


def test_processes_of_which_no_role_is_known_are_in_no_group() -> None:
    assert () == role_group(Story(job().events), [grown(4242, 30), grown(4243, 30)], "dataloader_worker")


def shared(*samples: tuple[int, int | None], until_ns: int = 0, begin: bool = True, cgroup_id: Any = 77) -> int:
    """Growth in MiB of samples at times relative to a moment four hundred seconds into the job."""
    scene = Scene()
    if begin:
        scene.begin()
    scene.pass_time(400 * NS_PER_S)
    at_ns = scene.now_ns
    for after_ns, mib in samples:
        scene.now_ns = at_ns + after_ns
        scene.cgroup_sample(77, "/x", shmem_bytes=None if mib is None else mib * MIB)
    return shmem_growth(Story(scene.events), cgroup_id, at_ns + until_ns) // MIB


def test_shared_memory_grew_from_the_first_reading_in_the_window_to_the_most() -> None:
    assert 9 == shared((-2, 1), (-1, 10), (0, 4))
    assert 0 == shared((-2, None), (-1, 10), (0, 4))
    assert 0 == shared()
    assert 0 == shared((-2, 1), (-1, 10), cgroup_id=5)
    assert 0 == shared((-2, 1), (-1, 10), cgroup_id=None)


def test_shared_memory_is_read_within_the_window_alone() -> None:
    assert 9 == shared((-WINDOW_NS, 1), (AFTER_NS, 10))
    assert 0 == shared((-WINDOW_NS - 1, 1), (0, 10))
    assert 0 == shared((0, 1), (AFTER_NS + 1, 10))
    assert 9 == shared((-WINDOW_NS, 1), (0, 10), begin=False)


def test_shared_memory_of_before_the_job_is_not_its_own() -> None:
    assert 0 == shared((-400 * NS_PER_S - 1, 1), (-400 * NS_PER_S, 10), until_ns=-399 * NS_PER_S)
    assert 9 == shared((-400 * NS_PER_S, 1), (-400 * NS_PER_S + 1, 10), until_ns=-399 * NS_PER_S)
