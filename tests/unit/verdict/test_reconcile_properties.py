# SPDX-License-Identifier: Apache-2.0
"""A kernel is played that counts as mm/oom_kill.c does: its counts come out to the unit, whatever was lost."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings, strategies as st

from tests.unit.verdict.scenes import KILL_STACK, LAUNCHER, Scene
from tracer.events import AnyEvent, Header, Losses, OomMark, VmstatSample
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.model import Counter
from tracer.verdict.story import Story

MEMBER_STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_memcg_member", "mem_cgroup_scan_tasks")
PLACES: dict[str, tuple[int, ...]] = {"job": (77, 1), "below": (78, 77, 1), "elsewhere": (555, 1)}


class Shot(NamedTuple):
    """One run of the OOM killer."""

    place: str
    members: int
    """Of the group beside the first victim; 0: it is not killed as one."""
    first_is_dead: bool
    """By the time that the group's members are killed."""
    sharers: int
    lost: bool
    """The mark of the first victim."""


shots = st.lists(
    st.builds(
        Shot,
        place=st.sampled_from(sorted(PLACES)),
        members=st.integers(0, 3),
        first_is_dead=st.booleans(),
        sharers=st.just(0),
        lost=st.booleans(),
    ),
    max_size=8,
)


class Kernel:
    """Kills, counts and sends records."""

    def __init__(self, version: int) -> None:
        self.version, self.scene = version, Scene()
        self.scene.begin()
        self.count = {1: 0, 77: 0, 78: 0, 555: 0}
        self.machine = 700
        self.lost = 0
        self._pid = 50_000
        self.read()
        self.scene.pass_time(NS_PER_S)

    def read(self) -> None:
        self.scene.cgroup_sample(77, "/run-7f3", oom_kill=self.count[77])
        self.scene.cgroup_sample(1, "/", oom_kill=self.count[1])
        self.scene.add(VmstatSample(ts_ns=self.scene.now_ns, source="pressure", oom_kill=self.machine))

    def fire(self, shot: Shot) -> None:
        trigger = first = self._new(shot)
        self._kill(shot, first, trigger, KILL_STACK, lost=shot.lost)
        if shot.members:
            group = [*(() if shot.first_is_dead else (first,)), *(self._new(shot) for _ in range(shot.members))]
            for pid in group:
                if pid == first:
                    self._counts(shot)
                    self.scene.oom_signal(pid, trigger, result=1)
                else:
                    self._kill(shot, pid, trigger, MEMBER_STACK, lost=False)
        for _ in range(shot.sharers):
            self.scene.oom_signal(self._new(shot), trigger)
        self.scene.pass_time(2 * NS_PER_S)

    def end(self, more: int = 0) -> list[AnyEvent]:
        """The records, and so many counts that nothing was sent for."""
        for key in (1, 77):
            self.count[key] += more
        self.machine += more
        self.read()
        losses = Losses(
            ts_ns=self.scene.now_ns + 2 * NS_PER_S,
            source="tracer",
            dropped={"oom_mark": self.lost} if self.lost else {},
        )
        events = self.scene.finish(losses=losses)
        return [msgspec.structs.replace(e, cgroup_version=self.version) if isinstance(e, Header) else e for e in events]

    def _new(self, shot: Shot) -> int:
        self._pid += 1
        if shot.place != "elsewhere":
            self.scene.fork(self._pid, LAUNCHER)
        return self._pid

    def _counts(self, shot: Shot) -> None:
        self.machine += 1
        for cgroup in PLACES[shot.place] if self.version == 2 else PLACES[shot.place][:1]:
            self.count[cgroup] += 1
        self.scene.pass_time(50_000)

    def _kill(self, shot: Shot, pid: int, trigger: int, stack: Sequence[str], *, lost: bool) -> None:
        self._counts(shot)
        ours = int(shot.place != "elsewhere")
        self.scene.oom_signal(pid, trigger, in_tree=ours)
        self.scene.pass_time(40_000)
        if lost:
            self.lost += 1
        else:
            chain = PLACES[shot.place]
            mark = self.scene.mark(pid, trigger, levels=len(chain))
            for depth, cgroup in enumerate(chain):
                values: dict[str, Any] = {"events_oom_kill": self.count[cgroup], "oom_group": int(shot.members > 0)}
                self.scene.level(mark, depth, name=str(cgroup), cgroup_id=cgroup, events_local_oom=1, **values)
            self.scene.stack(mark, stack)
        self.scene.pass_time(NS_PER_MS)
        # A lost mark of another's process leaves nothing; of the job's its exit tells.
        if ours or not lost:
            self.scene.exit(pid, 9, oom_marked=1, in_tree=ours)


def played(version: int, fired: Sequence[Shot], more: int = 0) -> tuple[list[AnyEvent], int]:
    kernel = Kernel(version)
    for shot in fired:
        kernel.fire(shot)
    return kernel.end(more), kernel.lost


def counters(events: list[AnyEvent]) -> dict[str, Counter]:
    found = Case(Story(events)).counters
    assert found is not None
    return {one.cgroup or one.whose: one for one in found.counters}


@given(st.sampled_from([1, 2]), shots)
@settings(max_examples=60, deadline=None)
def test_every_count_is_explained_by_what_was_seen_and_lost(version: int, fired: list[Shot]) -> None:
    events, _ = played(version, fired)
    found = counters(events)

    assert {0} == {one.unexplained for one in found.values()}
    assert all(one.counted == one.seen + one.counted_again + one.lost or one.explained_by for one in found.values())


@given(st.sampled_from([1, 2]), shots)
@settings(max_examples=60, deadline=None)
def test_where_no_mark_was_lost_the_counts_are_those_seen_to_the_unit(version: int, fired: list[Shot]) -> None:
    events, _ = played(version, [shot._replace(lost=False) for shot in fired])

    for one in counters(events).values():
        assert one.counted == one.seen + one.counted_again
        assert (0, 0, 0, ()) == (one.maybe, one.lost, one.unexplained, one.explained_by)


@given(st.sampled_from([1, 2]), shots, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_what_nothing_was_seen_of_is_left_unexplained_to_the_unit(version: int, fired: list[Shot], more: int) -> None:
    events, _ = played(version, [shot._replace(lost=False) for shot in fired], more)
    found = counters(events)
    report = judge(events)

    assert {more} == {one.unexplained for one in found.values()}
    assert any(f": {more} {'is' if more == 1 else 'are'} not explained" in text for text in report.verdict.caveats)


@given(st.sampled_from([1, 2]), shots, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_lost_marks_never_explain_more_than_they_are(version: int, fired: list[Shot], more: int) -> None:
    events, lost = played(version, fired, more)

    for one in counters(events).values():
        assert one.unexplained >= more - lost - one.maybe
        assert one.lost <= lost


@given(shots, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_no_end_of_the_job_is_proved_to_be_free_of_kills_against_its_counter(fired: list[Shot], more: int) -> None:
    events, _ = played(2, fired, more)

    for incident in judge(events).verdict.incidents:
        assert incident.cause != "exited" or incident.strength != "proved"


@given(st.sampled_from([1, 2]), shots, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_arrival_changes_nothing(version: int, fired: list[Shot], random: Any) -> None:
    events, _ = played(version, fired)
    expected = Case(Story(events)).counters
    random.shuffle(events)

    assert expected == Case(Story(events)).counters


@given(st.sampled_from([1, 2]), shots)
@settings(max_examples=40, deadline=None)
def test_marks_that_are_left_out_silently_are_missed_by_the_counters(version: int, fired: list[Shot]) -> None:
    events, _ = played(version, [shot._replace(lost=False, members=0, place="elsewhere") for shot in fired])
    silent = [e for e in events if not isinstance(e, OomMark)]
    found = counters([msgspec.structs.replace(e, seq=n) for n, e in enumerate(silent)])

    # What shows of others by their exits still counts as seen; nothing else may.
    assert found["machine"].counted == len(fired)
    assert found["machine"].seen + found["machine"].unexplained == len(fired)
