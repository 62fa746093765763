# SPDX-License-Identifier: Apache-2.0
"""What a recording as a whole allows to say: what watched, since when, what was lost near a moment, and wall time."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.scenes import HOOKS, LAUNCHER, RANK, T0, WORKERS, Scene, changed, start_of, without
from tracer.events import (
    AnyEvent,
    Armed,
    Clock,
    Disarmed,
    Header,
    HookStatus,
    JobStarted,
    Losses,
    Note,
    OomLevel,
    ProcessForked,
    ProcessSample,
)
from tracer.units import NS_PER_S
from tracer.verdict.story import Story

KILL_HOOKS = ("mark_victim", "signal_generate", "sched_process_exit")
AT_NS = T0 + 100 * NS_PER_S
REALTIME_NS = 1_790_000_000 * NS_PER_S


def watched() -> list[AnyEvent]:
    """A job that was watched from its start to its end."""
    scene = Scene()
    scene.job()
    return scene.finish(0)


def told(losses: list[tuple[int, int]], *, begun: int = 1, to_ns: int = AT_NS) -> tuple[str, ...]:
    """Doubts about a moment, given how much had been lost by when, relative to it."""
    events = [Losses(ts_ns=AT_NS + at_ns, seq=n, dropped={"oom_mark": lost}) for n, (at_ns, lost) in enumerate(losses)]
    return Story([*events, Header(ts_ns=begun, seq=len(events), version="", realtime_ns=0, boottime_ns=0)]).doubts(
        AT_NS, to_ns
    )


def test_events_are_in_time_order_each_once_and_gaps_are_counted() -> None:
    events = [Note(ts_ns=ts_ns, seq=seq, text="") for seq, ts_ns in ((4, 7), (2, 7), (2, 1), (0, 9))]
    story = Story(events)

    assert [2, 4, 0] == [event.seq for event in story.events]
    assert 2 == story.missing_events
    assert 0 == Story([]).missing_events


def test_a_loss_is_near_from_ten_seconds_before_to_a_second_after() -> None:
    second = NS_PER_S
    near = ("3 kernel records were lost near it",)

    assert near == told([(-10 * second, 3), (0, 3)])
    assert () == told([(-10 * second - 1, 3), (0, 3)])
    assert near == told([(second, 0), (5 * second, 3)])
    assert () == told([(second + 1, 0), (5 * second, 3)])
    assert near == told([(60 * second, 3)])
    assert near == told([(0, 0), (60 * second, 3)])


def test_a_span_has_its_window_before_its_start_and_after_its_end() -> None:
    later = AT_NS + 50 * NS_PER_S

    assert 1 == len(told([(51 * NS_PER_S, 0), (52 * NS_PER_S, 1)], to_ns=later))
    assert () == told([(51 * NS_PER_S + 1, 0), (52 * NS_PER_S, 1)], to_ns=later)
    assert 1 == len(told([(-10 * NS_PER_S, 1), (50 * NS_PER_S, 1)], to_ns=later))


def test_losses_are_counted_since_the_reading_before_and_told_in_one() -> None:
    assert ("6 kernel records were lost near it",) == told([(-1, 2), (0, 6), (1, 6)])


def test_a_count_that_falls_gives_nothing_back() -> None:
    assert ("5 kernel records were lost near it",) == told([(-2, 5), (-1, 3), (0, 3)])


@pytest.mark.parametrize(("after_ns", "confirmed"), [(-1, False), (0, True)])
def test_only_a_reading_after_it_confirms_that_nothing_was_lost(after_ns: int, confirmed: bool) -> None:
    assert confirmed == (() == told([(-5, 0), (after_ns, 0)]))
    assert any("ends before it could say" in doubt for doubt in told([(after_ns, 0)])) is not confirmed


def test_a_later_reading_does_not_take_a_confirmation_back() -> None:
    assert () == told([(0, 0), (7, 0)], to_ns=AT_NS)


@pytest.mark.parametrize(("gap", "words"), [(0, None), (1, "1 event is missing"), (2, "2 events are missing")])
def test_numbers_that_are_missing_are_a_doubt(gap: int, words: str | None) -> None:
    events = watched()
    last = msgspec.structs.replace(events[-1], seq=events[-1].seq + gap)
    found = Story([*events[:-1], last]).doubts(T0, T0)

    assert [words] == [doubt.split(" from ")[0] for doubt in found] if words else () == found


def test_a_whole_recording_was_watched_from_the_start() -> None:
    assert Story(watched()).watched_from_start(*KILL_HOOKS)


def unarmed() -> list[AnyEvent]:
    return without(watched(), Armed)


def armed_late() -> list[AnyEvent]:
    events = watched()
    job = next(e for e in events if isinstance(e, JobStarted))
    return changed(events, Armed, ts_ns=job.ts_ns + 1)


def unclaimed() -> list[AnyEvent]:
    return [msgspec.structs.replace(e, in_tree=0) if getattr(e, "tgid", 0) == LAUNCHER and hasattr(e, "in_tree") else e
            for e in watched()]  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        unarmed(),
        armed_late(),
        unclaimed(),
        changed(watched(), JobStarted, attached=True),
        without(watched(), JobStarted),
        without(watched(), Disarmed),
        without(watched(), HookStatus),
        changed(watched(), Header, own_pid_namespace=True),
    ],
)
def test_anything_less_was_not(events: list[AnyEvent]) -> None:
    assert not Story(events).watched_from_start(*KILL_HOOKS)


def test_armed_at_the_very_start_is_from_the_start() -> None:
    events = watched()
    job = next(e for e in events if isinstance(e, JobStarted))

    assert Story(changed(events, Armed, ts_ns=job.ts_ns)).watched_from_start(*KILL_HOOKS)


@pytest.mark.parametrize("missing", KILL_HOOKS)
def test_all_hooks_that_are_asked_for_must_have_been_attached(missing: str) -> None:
    scene = Scene()
    scene.begin(hooks=[hook for hook in HOOKS if hook != missing])
    story = Story(scene.finish(0))

    assert not story.watched(*KILL_HOOKS)
    assert story.watched(*(hook for hook in KILL_HOOKS if hook != missing))
    assert not story.watched("no_such_hook")


def test_hooks_that_stand_ready_watch_nothing_until_armed() -> None:
    assert not Story(unarmed()).watched("mark_victim")
    assert not Story(changed(watched(), Header, own_pid_namespace=True)).watched("mark_victim")
    assert Story(without(watched(), Header)).watched("mark_victim")


def test_the_kernels_filter_follows_the_job_where_it_had_its_root() -> None:
    assert Story(watched()).follows_job
    assert not Story(unclaimed()).follows_job
    assert not Story([]).follows_job


def test_wall_time_is_by_the_newest_clock_reading_before() -> None:
    events: list[AnyEvent] = [
        Header(ts_ns=T0, seq=0, version="", realtime_ns=REALTIME_NS, boottime_ns=0),
        Clock(ts_ns=T0 + 10 * NS_PER_S, seq=1, realtime_ns=REALTIME_NS + 3610 * NS_PER_S, boottime_ns=0),
    ]
    story = Story(events)

    assert "2026-09-21T14:13:20.000000Z" == story.utc(T0)
    assert "2026-09-21T14:13:29.000000Z" == story.utc(T0 + 9 * NS_PER_S)
    assert "2026-09-21T15:13:30.000000Z" == story.utc(T0 + 10 * NS_PER_S)
    assert "2026-09-21T14:13:19.000000Z" == story.utc(T0 - NS_PER_S)
    assert Story(events[:0]).utc(T0) is None


@pytest.mark.parametrize(
    ("lost", "numbered"),
    [
        ({}, True),
        ({"log_gaps": 1, "reclaim": 1, "dropped": {"signal_sent": 1}}, True),
        ({"dropped": {"process_forked": 1}}, False),
        ({"untracked": 1}, False),
        ({"unknown": 1}, False),
        ({"short": 1}, False),
    ],
)
def test_workers_have_numbers_where_no_fork_can_be_missing(lost: dict[str, Any], numbered: bool) -> None:
    scene = Scene()
    scene.job()
    scene.add(Losses(ts_ns=scene.now_ns))
    scene.add(Losses(ts_ns=scene.now_ns, **lost))
    workers = [role for identity, role in Story(scene.events).roles.items() if identity.tgid in WORKERS]

    assert numbered == all(role.worker is not None for role in workers)


def test_a_gap_in_the_recording_takes_the_numbers_of_workers() -> None:
    events = watched()
    samples = [e for e in events if not isinstance(e, ProcessForked) or e.tgid != WORKERS[1]]

    assert all(role.worker is None for role in Story(samples).roles.values())


def test_ranks_are_counted() -> None:
    assert 1 == Story(watched()).ranks


def test_a_process_is_of_the_job_by_its_forks_or_by_the_kernels_filter() -> None:
    scene = Scene()
    scene.job()
    scene.exit(300, 0, in_tree=1)
    scene.exit(301, 0, in_tree=0)
    scene.seen(302, LAUNCHER, "x", None, parent_start_ns=start_of(LAUNCHER))
    story = Story(scene.events)

    assert [True, True, False, True, False] == [story.is_ours(pid, start_of(pid)) for pid in (RANK, 300, 301, 302, 303)]


@pytest.mark.parametrize(
    ("own_cgroup", "cgroup_id", "followed", "may_be"),
    [(True, 77, True, True), (True, 78, True, False), (False, 77, True, False), (True, 78, False, True)],
)
def test_a_kill_that_cannot_be_placed_may_be_of_the_job_by_its_cgroup_or_where_pids_do_not_compare(
    own_cgroup: bool, cgroup_id: int, followed: bool, may_be: bool
) -> None:
    scene = Scene()
    scene.begin(own_cgroup=own_cgroup)
    scene.exit(LAUNCHER, 0, in_tree=int(followed))
    scene.level(scene.mark(500, 500), 0, name="", cgroup_id=cgroup_id, events_local_oom=0)
    levels = [event for event in scene.events if isinstance(event, OomLevel)]

    assert may_be == Story(scene.events).may_be_ours(levels)
    assert not Story(without(watched(), JobStarted)).follows_job
    assert Story(without(scene.events, JobStarted)).may_be_ours(levels)


def test_that_the_kernel_does_not_follow_the_job_is_said_of_a_whole_recording() -> None:
    words = "could not be told to be of this job"

    assert words in caveats(unclaimed())
    assert words not in caveats(watched())
    assert words not in caveats(without(unclaimed(), Armed))
    assert words not in caveats(without(unclaimed(), Disarmed))
    assert words not in caveats(without(unclaimed(), JobStarted))


def caveats(events: list[AnyEvent]) -> str:
    return "\n".join(Story(events).caveats)


def test_a_recording_without_remarks_has_none() -> None:
    assert () == Story(watched()).caveats


def test_that_the_kernel_was_not_watched_is_said_with_the_reason() -> None:
    bpf = HookStatus(ts_ns=T0, seq=1000, hook="bpf", attached=False, why_not="not root")

    assert "not watched (not root)" in caveats([*unarmed(), bpf])
    assert "The kernel was not watched: " in caveats(unarmed())
    assert "The kernel was not watched: " in caveats([*unarmed(), msgspec.structs.replace(bpf, why_not=None)])
    assert "has no end" not in caveats(without(unarmed(), Disarmed))


def test_a_recording_without_an_end_is_said_to_have_none() -> None:
    assert "has no end" in caveats(without(watched(), Disarmed))


@pytest.mark.parametrize(
    ("hook", "told"), [*((hook, True) for hook in (*KILL_HOOKS, "sched_process_fork")), ("sched_process_exec", False)]
)
def test_hooks_without_which_less_is_known_are_named(hook: str, told: bool) -> None:
    scene = Scene()
    scene.begin(hooks=[one for one in HOOKS if one != hook])

    assert told == (f"Not watched: raw_tracepoint:{hook} (not on this kernel)." in caveats(scene.finish(0)))


def test_a_kernel_log_that_was_not_read_is_named_even_without_a_reason() -> None:
    events = [e if not isinstance(e, HookStatus) or e.hook != "kmsg" else msgspec.structs.replace(e, attached=False)
              for e in watched()]  # fmt: skip

    assert "Not watched: kmsg." == caveats(events)


def test_losses_are_told_as_the_last_reading_has_them() -> None:
    lost = {"dropped": {"b": 2, "a": 1, "none": 0}, "short": 3, "unknown": 4, "untracked": 5, "log_gaps": 6}
    scene = Scene()
    scene.begin()
    scene.add(Losses(ts_ns=scene.now_ns, dropped={"a": 1}))
    events = scene.finish(0, losses=Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, **lost))  # type: ignore[arg-type]

    assert (
        "Lost in all: 1 a, 2 b, 3 short, 4 of unknown kind, 5 processes that did not fit into the tree filter."
        in caveats(events)
    )
    assert "6 records of the kernel log were overwritten" in caveats(events)
    assert "Lost in all: 1 a." in caveats(changed(events, Losses, dropped={"a": 1}, short=0, unknown=0, untracked=0))


def test_gaps_in_the_log_alone_are_no_loss_of_kernel_records() -> None:
    scene = Scene()
    scene.begin()

    assert "Lost in all" not in caveats(scene.finish(0, losses=Losses(ts_ns=scene.now_ns + NS_PER_S, log_gaps=1)))


def test_forged_records_are_counted_and_remarks_told_once() -> None:
    scene = Scene()
    scene.begin()
    for trusted in (False, True, False):
        scene.log_kill(4242, trusted=trusted)
    for text in ("one", "two", "one"):
        scene.add(Note(ts_ns=scene.now_ns, text=text))

    assert ["2 log records may be forged and were not counted as evidence.", "one", "two"] == list(
        Story(scene.finish(0)).caveats
    )


def test_an_index_holds_all_events_of_a_key_in_time_order() -> None:
    scene = Scene()
    scene.job()
    scene.sample(RANK, 2)
    scene.sample(LAUNCHER, 2)
    scene.pass_time(-NS_PER_S)
    scene.sample(RANK, 1)
    found = Story(scene.events).by(ProcessSample, lambda s: s.tgid, "tgid")

    assert [scene.now_ns, scene.now_ns + NS_PER_S] == [s.ts_ns for s in found[RANK]]
    assert 1 == len(found[LAUNCHER])


@pytest.mark.parametrize(("rung", "words"), [("fentry", "fentry hooks"), ("kprobe", "kprobes")])
def test_kinds_of_hooks_are_said_in_words_that_exist(rung: str, words: str) -> None:
    events = watched()
    hook = HookStatus(ts_ns=T0, hook=f"{rung}:oom_kill_process", attached=True, seq=max(e.seq for e in events) + 1)

    assert Story([*events, hook]).watched_by[0] == f"BPF (raw tracepoints, {words})"


@pytest.mark.parametrize(
    ("transport", "said"), [(None, ""), ("ring_buffer", ""), ("perf_buffer", "; perf buffers"), ("pigeon", "")]
)
def test_what_stood_in_for_the_ring_buffer_is_named(transport: str | None, said: str) -> None:
    events = changed(watched(), Armed, transport=transport)

    assert Story(events).watched_by[0] == f"BPF (raw tracepoints{said})"
