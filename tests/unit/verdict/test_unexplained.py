# SPDX-License-Identifier: Apache-2.0
"""Witnesses that count kills which nobody saw: each speaks only of this job, and only where nothing explains it."""

import msgspec
import pytest

from tests.unit.verdict.scenes import DYING_STACK, LAUNCHER, RANK, WORKERS, Scene, changed
from tracer.events import AnyEvent, CgroupSample, JobStarted, OomMark, ProcessExited, SignalSent, VmstatSample
from tracer.units import NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.story import Story

VICTIM = WORKERS[2]


def begun(*, own_cgroup: bool = True) -> Scene:
    scene = Scene()
    scene.begin(own_cgroup=own_cgroup)
    for pid in (RANK, *WORKERS):
        scene.fork(pid, LAUNCHER)
    return scene


def doubts(scene: Scene | list[AnyEvent]) -> tuple[str, ...]:
    story = Story(scene.events if isinstance(scene, Scene) else scene)
    return Case(story).unexplained


@pytest.mark.parametrize(("oom_marked", "in_tree", "told"), [(1, 1, True), (1, 0, False), (0, 1, False)])
def test_a_marked_exit_in_the_job_without_its_mark_is_told(oom_marked: int, in_tree: int, told: bool) -> None:
    scene = begun()
    scene.exit(VICTIM, 9, oom_marked=oom_marked, in_tree=in_tree)

    assert told == bool(doubts(scene))


def test_a_marked_exit_is_explained_by_its_kill_or_by_a_mark_of_the_dying() -> None:
    killed, dying = begun(), begun()
    killed.kill(VICTIM)
    dying.stack(dying.mark(VICTIM, RANK), DYING_STACK)
    dying.exit(VICTIM, 9, oom_marked=1)

    assert () == doubts(killed)
    assert () == doubts(dying)


def test_a_log_line_of_a_process_of_the_job_is_told_once() -> None:
    scene = begun()
    scene.log_kill(VICTIM)
    scene.log_kill(VICTIM)

    assert (f"the kernel's log says that pid {VICTIM} was killed, and that was not seen",) == doubts(scene)


def test_a_log_line_is_not_told_if_it_is_forged_or_explained() -> None:
    scene = begun()
    scene.log_kill(RANK, trusted=False)
    scene.kill(4242)
    scene.log_kill(4242)
    scene.kill(VICTIM, tid=LAUNCHER)
    scene.log_kill(VICTIM)
    scene.log_kill(LAUNCHER)

    assert () == doubts(scene)


def test_a_kill_without_a_mark_explains_its_log_line() -> None:
    scene = begun()
    scene.kill(VICTIM)
    scene.oom_signal(RANK, VICTIM, ts_ns=scene.now_ns - 3_000_000)
    scene.log_kill(RANK)

    assert () == doubts(scene)


def counted(*counts: int, kills: int = 0, own_cgroup: bool = True, cgroup_id: int = 77) -> bool:
    scene = begun(own_cgroup=own_cgroup)
    for pid in WORKERS[:kills]:
        scene.kill(pid)
    for count in counts:
        scene.cgroup_sample(cgroup_id, "/run-7f3", oom_kill=count)
        scene.cgroup_sample(78, "/run-7f3/worker", oom_kill=90)
        scene.pass_time(NS_PER_S)
    return any("in the job's cgroup" in doubt for doubt in doubts(scene))


def test_more_than_the_kills_that_were_seen_is_too_many() -> None:
    assert counted(1)
    assert not counted(0)
    assert not counted(1, kills=1)
    assert counted(2, kills=1)
    assert not counted(2, kills=2)
    assert counted(3, kills=2)


def test_a_cgroup_that_was_there_before_counts_from_its_first_reading() -> None:
    assert not counted(7, 7, own_cgroup=False)
    assert counted(7, 8, own_cgroup=False)
    assert counted(7, 7)
    assert counted(7, 9, own_cgroup=False, kills=1)


def test_only_the_jobs_own_cgroup_is_counted() -> None:
    assert not counted(9, cgroup_id=5)
    assert not counted()


def test_a_count_is_explained_by_a_kill_below_the_cgroup_or_one_whose_cgroups_are_unknown() -> None:
    elsewhere, unknown = begun(), begun()
    elsewhere.oom_signal(4242, 4242)
    mark = elsewhere.mark(4242, 4242, levels=1)
    elsewhere.level(mark, 0, name="", cgroup_id=1, events_local_oom=1)
    elsewhere.stack(mark)
    unknown.oom_signal(VICTIM, VICTIM)
    unknown.stack(unknown.mark(VICTIM, VICTIM))
    for scene in (elsewhere, unknown):
        scene.cgroup_sample(77, "/run-7f3", oom_kill=1)

    assert ("the kernel counted 1 OOM kill in the job's cgroup, and 0 were seen",) == doubts(elsewhere)
    assert () == doubts(unknown)


@pytest.mark.parametrize(
    ("seen_in", "above", "told"),
    [
        (None, 0, False),
        ("/run-7f3/deep/er", 0, False),
        ("/run-7f3b", 0, True),
        ("/other", 0, True),
        (None, 1, True),
    ],
)
def test_the_jobs_cgroup_speaks_for_all_of_it_while_nobody_is_known_to_have_left_it(
    seen_in: str | None, above: int, *, told: bool
) -> None:
    """The machine counted a kill that nobody saw, and the job's own cgroup did not."""
    scene = begun()
    scene.seen(RANK, LAUNCHER, "python3", None, cgroup=seen_in)
    for count in (0, 1):
        scene.cgroup_sample(77, "/run-7f3", oom_kill=0)
        scene.cgroup_sample(5, "/", oom_kill=count * above)
        scene.add(VmstatSample(ts_ns=scene.now_ns, source="pressure", oom_kill=9 + count))
        scene.pass_time(NS_PER_S)
    scene.finish()

    assert told == bool(doubts(scene))


def test_a_log_line_of_a_stranger_is_told_where_its_mark_would_have_been_seen() -> None:
    watched, unwatched = begun(), Scene()
    unwatched.begin(hooks=())
    for scene in (watched, unwatched):
        scene.log_kill(4242)

    assert 1 == len(doubts(watched))
    assert () == doubts(unwatched)


def test_a_log_line_that_was_read_before_the_job_began_is_of_a_kill_before_it() -> None:
    scene = begun()
    scene.log_kill(4242)
    *others, line = scene.events
    place = next(n for n, event in enumerate(others) if isinstance(event, JobStarted))
    read_before = [*others[:place], line, *others[place:]]

    assert () == doubts([msgspec.structs.replace(e, seq=n) for n, e in enumerate(read_before)])


def test_a_part_of_a_mark_is_told_where_the_mark_is_missing() -> None:
    scene = begun()
    mark = scene.kill(VICTIM)
    whole = doubts(scene)
    alone = [event for event in scene.events if not isinstance(event, OomMark | SignalSent | ProcessExited)]

    assert () == whole
    assert (f"pid {mark.tgid} was marked by the OOM killer, and of that mark only a part was recorded",) == doubts(
        alone
    )


def test_cgroups_without_an_id_or_a_count_say_nothing() -> None:
    scene = begun()
    scene.cgroup_sample(77, "/run-7f3", oom_kill=1)
    nameless = changed(scene.events, JobStarted, cgroup_id=None)
    scene.cgroup_sample(77, "/run-7f3")
    without_id = changed(nameless, CgroupSample, cgroup_id=None)

    assert 1 == len(doubts(scene))
    assert () == doubts(without_id)
    assert () == doubts([e for e in scene.events if not isinstance(e, JobStarted)])


@pytest.mark.parametrize(("cgroup_id", "told"), [(77, True), (78, False)])
def test_a_kill_in_the_jobs_own_cgroup_of_one_that_no_fork_told_of_is_a_doubt(*, cgroup_id: int, told: bool) -> None:
    scene = begun()
    scene.oom_signal(4242, 4242, in_tree=0)
    mark = scene.mark(4242, 4242)
    scene.level(mark, 0, name="c", cgroup_id=cgroup_id, events_local_oom=1)
    scene.stack(mark)
    scene.exit(LAUNCHER, 0)

    assert told == bool(doubts(scene))
