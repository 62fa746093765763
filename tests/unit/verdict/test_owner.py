# SPDX-License-Identifier: Apache-2.0
"""Whose limit it was: by the OOM killer's own word, counts that rose, usage and the log; sure only where they agree."""

from typing import Any

import pytest

from tests.unit.verdict.marks import decided
from tests.unit.verdict.scenes import LAUNCHER, Scene, without
from tracer.events import Header, JobStarted
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_S
from tracer.verdict.kills import find_kills
from tracer.verdict.owner import Owner, find_owner, is_whole, memsw
from tracer.verdict.story import Story

OWN, RUN, ROOT = "/run/own", "/run", "/"
BATCH_BYTES = 64 * 4096
FULL = {"usage_bytes": 512 * MIB, "limit_bytes": 512 * MIB}


class Case:
    """A kill in `/run/own`, of which what `levels` and the log hold is up to the test."""

    def __init__(self, *, own_cgroup: bool = False) -> None:
        self.scene = Scene()
        self.scene.begin(own_cgroup=own_cgroup)
        self.scene.pass_time(20 * NS_PER_S)

    def counted(self, own: int | None = None, run: int | None = None, **more: Any) -> None:
        """What was read of the counts some time before."""
        self.scene.cgroup_sample(78, OWN, oom_local=own, **more)
        self.scene.cgroup_sample(77, RUN, oom_local=run, **more)
        self.scene.pass_time(NS_PER_S)

    def killed(
        self,
        own: dict[str, Any] | None = None,
        run: dict[str, Any] | None = None,
        *,
        root: bool = True,
        log: str | None = None,
        memcg_id: int | None = None,
    ) -> Owner:
        """The owner of the limit, by levels with these values; a level with `None` was not recorded."""
        scene = self.scene
        if memcg_id is not None:
            decided(scene, memcg_id=memcg_id, trigger_tid=LAUNCHER)
        scene.oom_signal(LAUNCHER, LAUNCHER)
        mark = scene.mark(LAUNCHER, LAUNCHER)
        for depth, (name, cgroup_id, values) in enumerate((("own", 78, own), ("run", 77, run), ("", 1, {}))):
            if values is not None and (depth < 2 or root):
                scene.level(mark, depth, name=name, cgroup_id=cgroup_id, **{"events_local_oom": 0, **values})
        scene.stack(mark)
        if log is not None:
            scene.log_decision(LAUNCHER, oom_memcg=log)
        return self.owner()

    def owner(self) -> Owner:
        story = Story(self.scene.events)
        kill = find_kills(story).kills[-1]
        paths = {78: OWN, 77: RUN, 1: ROOT}
        return find_owner(story, kill, [paths[level.cgroup_id] for level in kill.levels])


def counts(own: int | None, run: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    return {**FULL, "events_local_oom": own}, {**FULL, "events_local_oom": run}


def test_the_oom_killers_own_word_settles_it() -> None:
    owner = Case().killed(FULL, FULL, memcg_id=77, log=OWN)

    assert ((RUN,), True, ()) == (owner.cgroups, owner.sure, owner.caveats)


def test_a_cgroup_that_is_not_above_the_victim_is_not_taken_from_the_oom_killer() -> None:
    owner = Case().killed(*counts(1, 0), memcg_id=5)

    assert ((OWN,), "the only level at its limit") == (owner.cgroups, owner.how)


def test_a_count_that_rose_at_a_level_at_its_limit_is_the_owners() -> None:
    case = Case()
    case.counted(own=3, run=9)
    owner = case.killed(*counts(4, 9))

    assert ((OWN,), True, "its own OOM count rose") == (owner.cgroups, owner.sure, owner.how)


@pytest.mark.parametrize(("usage", "sure"), [(460.8, True), (460, False)])
def test_a_count_that_rose_far_below_the_limit_is_not_sure(usage: float, sure: bool) -> None:
    case = Case()
    case.counted(own=3)
    owner = case.killed({**FULL, "usage_bytes": int(usage * MIB) + 1, "events_local_oom": 4}, {})

    assert ((OWN,), sure) == (owner.cgroups, owner.sure)


def test_usage_of_exactly_nine_tenths_is_not_far_below() -> None:
    case = Case()
    case.counted(own=3)

    assert case.killed({"usage_bytes": 900, "limit_bytes": 1000, "events_local_oom": 4}, {}).sure


def test_a_level_without_a_limit_is_no_sure_owner() -> None:
    case = Case()
    case.counted(own=3)
    owner = case.killed({"usage_bytes": NO_LIMIT_BYTES, "limit_bytes": NO_LIMIT_BYTES, "events_local_oom": 4}, {})

    assert ((OWN,), False) == (owner.cgroups, owner.sure)


def test_two_counts_that_rose_far_from_any_limit_cannot_be_told_apart() -> None:
    case = Case()
    case.counted(own=3, run=3)
    owner = case.killed({"events_local_oom": 4}, {"events_local_oom": 4})

    assert ((OWN, RUN), False, "these cannot be told apart") == (owner.cgroups, owner.sure, owner.how)


def test_two_counts_that_rose_near_their_limits_cannot_be_told_apart() -> None:
    case = Case()
    case.counted(own=3, run=3)
    below = {"usage_bytes": 490 * MIB, "limit_bytes": 512 * MIB, "events_local_oom": 4}
    owner = case.killed(below, below)

    assert ((OWN, RUN), False) == (owner.cgroups, owner.sure)


def test_two_counts_that_rose_at_their_limits_are_both_named() -> None:
    case = Case()
    case.counted(own=3, run=3)
    owner = case.killed(*counts(4, 4))

    assert ((OWN, RUN), True, "these cannot be told apart") == (owner.cgroups, owner.sure, owner.how)


def test_of_two_counts_that_rose_the_one_at_its_limit_counts() -> None:
    case = Case()
    case.counted(own=3, run=3)
    owner = case.killed({"events_local_oom": 4}, counts(0, 4)[1])

    assert ((RUN,), True, "its own OOM count rose") == (owner.cgroups, owner.sure, owner.how)


@pytest.mark.parametrize(
    ("count", "near", "expected"),
    [
        (1, True, ((OWN, RUN), "these cannot be told apart")),
        (0, True, ((RUN,), "its own OOM count rose")),
        (1, False, ((RUN,), "its own OOM count rose")),
    ],
)
def test_beside_a_count_that_rose_one_that_nobody_had_read_is_not_ruled_out(
    count: int, near: bool, expected: tuple[tuple[str, ...], str]
) -> None:
    """A cgroup that the job made below its own: nobody samples it, and its limit is full as well."""
    case = Case(own_cgroup=True)
    own = {**FULL, "events_local_oom": count}
    owner = case.killed(own if near else {"events_local_oom": count}, {**FULL, "events_local_oom": 3})

    assert expected == (owner.cgroups, owner.how)


def test_the_log_settles_it_beside_a_count_that_nobody_had_read() -> None:
    owner = Case(own_cgroup=True).killed(*counts(1, 3), log=OWN)

    assert ((OWN,), True) == (owner.cgroups, owner.sure)


def test_a_count_that_rose_elsewhere_than_at_the_limit_is_a_disagreement() -> None:
    case = Case()
    case.counted(own=3, run=9)
    owner = case.killed({"events_local_oom": 4}, counts(0, 9)[1])

    assert ((RUN, OWN), False) == (owner.cgroups, owner.sure)
    assert (f"OOM counts rose in {OWN}, while {RUN} stood at its limit.",) == owner.caveats


@pytest.mark.parametrize(
    ("own", "run", "cgroups", "sure", "how"),
    [
        (FULL | {"events_local_oom": 7}, {}, (OWN,), True, "the only level at its limit"),
        (FULL | {"events_local_oom": None}, {}, (OWN,), True, "the only level at its limit"),
        (FULL | {"events_local_oom": 7}, FULL | {"events_local_oom": 7}, (OWN, RUN), True, "cannot be told apart"),
        (FULL | {"events_local_oom": 7}, FULL | {"events_local_oom": 0}, (OWN,), True, "the only level at its limit"),
        (FULL, {}, (), False, "cannot be told apart"),
    ],
)
def test_without_counts_that_rose_the_levels_at_their_limits_are_named(
    own: dict[str, Any], run: dict[str, Any], cgroups: tuple[str, ...], sure: bool, how: str
) -> None:
    owner = Case().killed(own, run)

    assert (cgroups, sure) == (owner.cgroups, owner.sure)
    assert how in owner.how


@pytest.mark.parametrize("missing", [{"own": None}, {"run": None}, {"root": False}])
def test_usage_is_sure_only_with_the_whole_chain(missing: dict[str, Any]) -> None:
    levels = {"own": counts(7, 7)[0], "run": counts(7, 7)[1], **missing}

    assert not Case().killed(**levels).sure
    case = Case()
    case.killed(**levels)
    assert not is_whole(find_kills(Story(case.scene.events)).kills[0])


def test_a_chain_from_the_victim_to_the_root_is_whole_and_none_at_all_is_not() -> None:
    whole, none = Case(), Case()
    whole.killed({}, {})
    none.killed(root=False)

    assert is_whole(find_kills(Story(whole.scene.events)).kills[0])
    assert not is_whole(find_kills(Story(none.scene.events)).kills[0])


@pytest.mark.parametrize(("below_bytes", "near"), [(BATCH_BYTES - 1, True), (BATCH_BYTES, False)])
@pytest.mark.parametrize("header", [True, False])
def test_at_the_limit_is_within_a_charge_batch(below_bytes: int, near: bool, header: bool) -> None:
    case = Case()
    if not header:
        case.scene.items = [event for event in case.scene.items if not isinstance(event, Header)]
    owner = case.killed({**FULL, "usage_bytes": 512 * MIB - below_bytes, "events_local_oom": 7}, {})

    assert near == ((OWN,) == owner.cgroups)


def test_the_batch_is_counted_in_pages_of_the_machine() -> None:
    case = Case()
    case.scene.items = [e if not isinstance(e, Header) else Header(ts_ns=e.ts_ns, version="", page_bytes=65536,
                        realtime_ns=0, boottime_ns=0) for e in case.scene.items]  # fmt: skip

    assert (OWN,) == case.killed({**FULL, "usage_bytes": 509 * MIB, "events_local_oom": 7}, {}).cgroups


def test_usage_without_a_limit_is_at_none() -> None:
    assert () == Case().killed({"usage_bytes": NO_LIMIT_BYTES, "events_local_oom": 7}, {}).cgroups


@pytest.mark.parametrize(
    ("version", "swap", "near"),
    [
        (1, (512 * MIB - BATCH_BYTES + 1, 512 * MIB), True),
        (1, (512 * MIB - BATCH_BYTES, 512 * MIB), False),
        (1, (None, 512 * MIB), False),
        (1, (NO_LIMIT_BYTES, NO_LIMIT_BYTES), False),
        (2, (512 * MIB, 512 * MIB), False),
        (None, (512 * MIB, 512 * MIB), False),
    ],
)
def test_memory_and_swap_together_may_be_the_limit_on_v1(
    version: int | None, swap: tuple[int | None, int], near: bool
) -> None:
    case = Case()
    case.scene.items = [e if not isinstance(e, Header) else Header(ts_ns=e.ts_ns, version="", cgroup_version=version,
                        realtime_ns=0, boottime_ns=0) for e in case.scene.items]  # fmt: skip
    values = {"swap_usage_bytes": swap[0], "swap_limit_bytes": swap[1], "events_local_oom": 7}

    assert near == ((OWN,) == case.killed(values, {}).cgroups)


def test_without_a_header_no_limit_is_one_of_memory_and_swap() -> None:
    case = Case()
    case.scene.items = [event for event in case.scene.items if not isinstance(event, Header)]
    case.killed({"swap_usage_bytes": 1, "swap_limit_bytes": 1}, {})
    story = Story(case.scene.events)

    assert (None, None) == memsw(story, find_kills(story).kills[0].levels[0])


@pytest.mark.parametrize(
    ("log", "cgroups", "sure", "how"),
    [
        (OWN, (OWN,), True, "the only level at its limit, and the kernel's log names it"),
        (RUN, (OWN, RUN), False, "what was seen of them disagrees"),
        ("/else", (OWN, "/else"), False, "what was seen of them disagrees"),
    ],
)
def test_the_log_confirms_or_contradicts_what_was_counted(
    log: str, cgroups: tuple[str, ...], sure: bool, how: str
) -> None:
    owner = Case().killed(counts(7, 0)[0], {}, log=log)

    assert (cgroups, sure, how) == (owner.cgroups, owner.sure, owner.how)
    assert len(owner.caveats) == (0 if sure else 1)
    assert sure or log in owner.caveats[0]


def test_the_log_settles_what_cannot_be_told_apart() -> None:
    owner = Case().killed(*counts(7, 7), log=RUN)

    assert ((RUN,), True, "named in the kernel's log") == (owner.cgroups, owner.sure, owner.how)


def test_the_log_alone_is_sure_only_of_a_level_that_was_recorded() -> None:
    seen, unseen = Case().killed({}, {}, log=RUN), Case().killed(root=False, log=RUN)

    assert ((RUN,), True) == (seen.cgroups, seen.sure)
    assert ((RUN,), False, ()) == (unseen.cgroups, unseen.sure, unseen.caveats)


def test_a_limit_that_the_log_names_elsewhere_is_not_believed() -> None:
    owner = Case().killed({}, {}, log="/else")

    assert (("/else",), False) == (owner.cgroups, owner.sure)
    assert ("The kernel's log names /else, which is not above the victim.",) == owner.caveats


def test_caveats_of_the_counters_stay_beside_the_logs_word() -> None:
    case = Case()
    case.counted(own=3, run=9)
    owner = case.killed({"events_local_oom": 4}, counts(0, 9)[1], log=OWN)

    assert (1, (OWN,)) == (len(owner.caveats), owner.cgroups)


ROSE = "its own OOM count rose"


@pytest.mark.parametrize(("own_cgroup", "rose"), [(True, True), (False, False)])
def test_a_cgroup_made_for_the_job_had_no_oom_before(own_cgroup: bool, rose: bool) -> None:
    assert rose == (ROSE == Case(own_cgroup=own_cgroup).killed({}, counts(0, 1)[1]).how)


def test_a_cgroup_below_the_jobs_own_is_not_taken_for_it() -> None:
    assert ROSE != Case(own_cgroup=True).killed(*counts(1, 0)).how


def test_without_a_job_no_count_is_known_to_have_begun_at_zero() -> None:
    case = Case(own_cgroup=True)
    case.scene.items = without(case.scene.events, JobStarted)  # type: ignore[assignment]

    assert ROSE != case.killed({}, counts(0, 1)[1]).how


@pytest.mark.parametrize(("count", "rose"), [(2, True), (3, False), (4, False)])
def test_a_count_rose_where_it_is_more_than_last_read(count: int, rose: bool) -> None:
    case = Case()
    case.counted(own=9)
    case.counted(own=2)
    case.counted(own=count)
    case.counted(own=None)

    assert rose == (ROSE == case.killed(counts(3, 0)[0], {}).how)


@pytest.mark.parametrize(("after_ns", "rose"), [(-1, False), (0, True)])
def test_only_what_was_read_before_the_kill_counts(after_ns: int, rose: bool) -> None:
    case = Case()
    case.counted(own=2)
    case.scene.cgroup_sample(78, OWN, oom_local=3)
    case.scene.pass_time(-after_ns)

    assert rose == (ROSE == case.killed(counts(3, 0)[0], {}).how)


def test_an_unknown_count_has_not_risen() -> None:
    case = Case()
    case.counted(own=2)

    assert ROSE != case.killed(counts(None, 0)[0], {}).how


@pytest.mark.parametrize(
    ("earlier", "count", "rose"), [(0, 1, True), (1, 2, True), (2, 2, False), (3, 2, False), (None, 2, False)]
)
def test_a_count_of_an_earlier_kill_is_a_reading_too(earlier: int | None, count: int, rose: bool) -> None:
    case = Case()
    mark = case.scene.mark(4242, 4242)
    case.scene.level(mark, 0, name="own", cgroup_id=78, events_local_oom=earlier)
    case.scene.pass_time(NS_PER_S)

    assert rose == (ROSE == case.killed(counts(count, 0)[0], {}).how)


def test_of_a_reading_and_an_earlier_kill_the_larger_count_holds() -> None:
    case = Case()
    for count in (1, 3, 1):
        mark = case.scene.mark(4242, 4242)
        case.scene.level(mark, 0, name="own", cgroup_id=78, events_local_oom=count)
        case.scene.pass_time(NS_PER_S)
    case.counted(own=2)

    assert ROSE != case.killed(counts(3, 0)[0], {}).how
    assert ROSE == case.killed(counts(4, 0)[0], {}).how
