# SPDX-License-Identifier: Apache-2.0
"""Recordings of real kernels of which parts are gone, and no number says so: nothing is proved that was not so."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.captured import Capture, captures, recording_of
from tests.unit.verdict.scenes import DYING_STACK, LAUNCHER, RANK, WORKERS, Scene, primary
from tracer.events import AnyEvent, JobEnded, JobStarted, OomMark, ProcessExited, ProcessForked, SignalInfo
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident
from tracer.verdict.rules import exited, signals
from tracer.verdict.story import Story

MOST_EVENTS = 300
"""Storms are judged whole elsewhere: here each example judges anew."""
PIDS = ("tgid", "parent_tgid", "mark_tgid", "sender_tgid", "trigger_tgid", "signalled_tgid", "pid")
"""Where an event speaks of a process."""
KERNELS_SIGKILL = {"info": SignalInfo.PRIV, "code": 128}


class Truth(NamedTuple):
    """What may be proved at most."""

    events: tuple[AnyEvent, ...]
    kills: frozenset[tuple[int, int]]
    """By the OOM killer; pid and tick of the start."""
    limits: frozenset[tuple[Any, ...]]
    others: frozenset[tuple[Any, ...]]
    """Of every end that a signal was, and of every exit."""
    ends: dict[int, Death]


def known(process: Any) -> tuple[int, int] | None:
    return None if process is None else (process.pid, (process.start_ns or 0) // (10 * NS_PER_MS))


def limit(incident: Incident) -> tuple[Any, ...]:
    """Cause, and which cgroups by their last names: above them a name may be lost."""
    found = incident.limit
    names = () if found is None else tuple(c.rpartition("/")[2].rpartition("(")[2].rstrip(")") for c in found.cgroups)
    # What an operator asked for has no limit, whatever else the kernel says of it.
    return (incident.cause, None if found is None or incident.cause == "operator_oom" else found.constraint, names)


def other(incident: Incident) -> tuple[Any, ...]:
    sent = incident.sender
    return (incident.cause, known(incident.victim), sent and (sent.pid, sent.kind, sent.program))


def is_kill(incident: Incident) -> bool:
    return incident.cause == "operator_oom" or incident.cause.startswith("host_oom")


def proved(events: Sequence[AnyEvent]) -> list[Incident]:
    return [i for i in judge(events).verdict.incidents if i.strength == "proved"]


@cache
def truth(capture: Capture) -> Truth:
    events = recording_of(capture)
    case = Case(Story(events))
    kills = [kill for kill in case.kills.kills if kill.status == "present"]
    told = [i for i in proved(events) if not is_kill(i)]
    # Also what is told there as collateral of something else.
    told += [found.incident for found in signals.find(case)]
    told += [exited.of_member(case, death).incident for death in case.deaths if not death.signal]
    return Truth(
        events,
        frozenset((kill.id.tgid, kill.start_ns // (10 * NS_PER_MS)) for kill in kills),
        frozenset(limit(i) for i in proved(events) if is_kill(i)),
        frozenset(other(i) for i in told),
        {death.id.tgid: death for death in case.deaths},
    )


def came_before(of: Truth, events: Sequence[AnyEvent], incident: Incident) -> list[int]:
    """Who had been ended before a process exited or was ended by its own job, and is still spoken of."""
    inside = incident.sender is not None and incident.sender.kind in {"launcher", "job"}
    failed = incident.cause == "exited" and incident.exit_code not in {0, None}
    if incident.victim is None or not (inside or failed):
        return []
    at_ns = of.ends[incident.victim.pid].at_ns
    before = {pid for pid, end in of.ends.items() if end.signal and end.at_ns < at_ns}
    if before & {pid for pid, _ in of.kills}:
        return sorted(before)  # of these the kernel has counts
    spoken = {getattr(event, name, None) for event in events for name in PIDS}
    return sorted(before & spoken)


def wrongly_proved(of: Truth, events: Sequence[AnyEvent]) -> list[str]:
    """What is proved of some events and is not so."""
    counted = [msgspec.structs.replace(event, seq=number) for number, event in enumerate(events)]
    found = []
    verdict = judge(counted).verdict
    first = verdict.incidents[verdict.primary]
    if first.strength == "proved" and (pids := came_before(of, events, first)):
        found.append(f"{first.headline}: and before that {pids}")
    for incident in proved(counted):
        if is_kill(incident):
            right = known(incident.victim) in of.kills and limit(incident) in of.limits
        else:
            right = other(incident) in of.others
        if not right:
            found.append(f"{incident.headline}: {known(incident.victim)} {limit(incident)}")
    return found


small = st.sampled_from([each for each in captures() if len(recording_of(each)) <= MOST_EVENTS])


@given(capture=small, data=st.data())
@settings(max_examples=150, deadline=None)
def test_without_some_kinds_of_events_nothing_else_is_proved(capture: Capture, data: st.DataObject) -> None:
    of = truth(capture)
    kinds = sorted({type(event).__name__ for event in of.events})
    gone = data.draw(st.sets(st.sampled_from(kinds), min_size=1, max_size=4))

    assert wrongly_proved(of, [event for event in of.events if type(event).__name__ not in gone]) == []


@given(capture=small, data=st.data())
@settings(max_examples=150, deadline=None)
def test_without_a_piece_of_the_recording_nothing_else_is_proved(capture: Capture, data: st.DataObject) -> None:
    of = truth(capture)
    first = data.draw(st.integers(0, len(of.events) - 1))
    last = data.draw(st.integers(first, len(of.events)))

    assert wrongly_proved(of, of.events[:first] + of.events[last:]) == []


@given(capture=small, data=st.data())
@settings(max_examples=150, deadline=None)
def test_without_all_that_is_told_of_a_process_nothing_else_is_proved(capture: Capture, data: st.DataObject) -> None:
    of = truth(capture)
    pid = data.draw(st.sampled_from(sorted({event.tgid for event in of.events if hasattr(event, "tgid")})))
    kept = [e for e in of.events if getattr(e, "tgid", None) != pid or isinstance(e, JobStarted | JobEnded)]

    assert wrongly_proved(of, kept) == []


@given(capture=small, random=st.randoms(use_true_random=False), share=st.sampled_from([0.02, 0.2, 0.5]))
@settings(max_examples=150, deadline=None)
def test_without_many_events_and_with_others_twice_nothing_else_is_proved(
    capture: Capture, random: Any, share: float
) -> None:
    of = truth(capture)
    left = [event for event in of.events if random.random() > share]
    left += random.choices(of.events, k=random.randrange(20))
    random.shuffle(left)

    assert wrongly_proved(of, left) == []


@pytest.mark.parametrize("capture", [c for c in captures() if len(recording_of(c)) <= MOST_EVENTS], ids=str)
def test_without_the_marks_no_kill_of_the_kernels_is_called_another(capture: Capture) -> None:
    of = truth(capture)

    assert wrongly_proved(of, [event for event in of.events if not isinstance(event, OomMark)]) == []


@pytest.mark.parametrize("capture", [c for c in captures() if len(recording_of(c)) <= MOST_EVENTS], ids=str)
def test_without_all_that_is_told_of_one_that_was_killed_nothing_else_is_proved(capture: Capture) -> None:
    """Its whole life, or all but its fork, or all but its end."""
    of = truth(capture)
    for pid, _ in of.kills:
        for left in ((), (ProcessForked,), (ProcessExited, JobEnded)):
            kept = [e for e in of.events if getattr(e, "tgid", None) != pid or isinstance(e, (JobStarted, *left))]
            assert wrongly_proved(of, kept) == []


def test_a_thread_that_the_log_names_is_known_by_the_sigkill_to_it() -> None:
    """Where the leader of a process is gone, the kernel's log has the pid of another thread."""
    scene = Scene()
    scene.job()
    scene.signal(LAUNCHER, 9, tid=LAUNCHER + 7, **KERNELS_SIGKILL)
    scene.log_kill(LAUNCHER + 7)
    scene.exit(LAUNCHER, 9)
    found = primary(judge(scene.finish(9)))

    assert "inconclusive" == found.cause
    assert any(f"log says that pid {LAUNCHER + 7} was killed" in caveat for caveat in found.caveats)


def sharer_killed(*, flags: int = 0, later_ns: int = NS_PER_MS, trigger: int = RANK) -> Incident:
    """The OOM killer takes a worker; the thread that ran it sends another worker a SIGKILL as well."""
    scene = Scene()
    scene.job()
    scene.kill(WORKERS[0], trigger)
    scene.exit(WORKERS[0], 9, oom_marked=1)
    scene.pass_time(later_ns)
    scene.oom_signal(WORKERS[1], trigger, sender_flags=flags)
    scene.exit(WORKERS[1], 9)
    report = judge(scene.finish())
    found = [i for i in report.verdict.incidents if i.victim is not None and i.victim.pid == WORKERS[1]]
    return found[0] if found else primary(report)


def test_a_sigkill_from_the_thread_of_an_oom_kill_is_never_proved_to_be_no_oom_kill() -> None:
    exiting = sharer_killed(flags=4)

    assert ("inconclusive", "possible") == (exiting.cause, exiting.strength)
    assert "whether from the OOM killer was not observed" in exiting.proof[0].statement


def test_long_after_that_it_is_the_kernels_for_another_reason() -> None:
    assert ("kernel_sigkill_other", "proved") == (
        (found := sharer_killed(flags=4, later_ns=20 * NS_PER_S)).cause,
        found.strength,
    )


def test_one_that_was_marked_as_dying_is_not_killed_by_a_later_sigkill_for_sure() -> None:
    scene = Scene()
    scene.job()
    scene.stack(scene.mark(LAUNCHER, RANK), DYING_STACK)
    scene.pass_time(NS_PER_MS)
    scene.signal(LAUNCHER, 9, **KERNELS_SIGKILL)
    scene.exit(LAUNCHER, 9, oom_marked=1)

    assert "proved" != primary(judge(scene.finish(9))).strength


def test_what_the_kernel_counted_and_nobody_saw_speaks_against_another_kill_of_the_kernels() -> None:
    scene = Scene()
    scene.job()
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=0)
    scene.pass_time(NS_PER_S)
    scene.signal(LAUNCHER, 9, **KERNELS_SIGKILL)
    scene.exit(LAUNCHER, 9)
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=1)
    found = primary(judge(scene.finish(9)))

    assert "inconclusive" == found.cause
    assert any("counted 1 OOM kill in the job's cgroup" in caveat for caveat in found.caveats)
