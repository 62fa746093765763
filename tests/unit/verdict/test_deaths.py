# SPDX-License-Identifier: Apache-2.0
"""How a process ended and which signal did it: delivered, before its end, and the one that could not be handled."""

import signal

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, start_of
from tracer.events import JobEnded
from tracer.events.signals import CRASH_SIGNALS
from tracer.units import NS_PER_S
from tracer.verdict.deaths import SIGNAL_NAMES, Death, find_deaths, signal_name
from tracer.verdict.story import Story

OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}


def begun() -> Scene:
    scene = Scene()
    scene.job()
    return scene


def death_of(scene: Scene, pid: int = RANK) -> Death | None:
    return next((d for d in find_deaths(Story(scene.events)) if d.id == identity(pid)), None)


def sent(scene: Scene, *comms: str, number: int = 15, end_ns: int = 1, status: int | None = None) -> Death:
    """Signals from outside a second apart, and an end so long after the last."""
    for place, comm in enumerate(comms):
        scene.pass_time(NS_PER_S if place else 0)
        scene.signal(RANK, number, sender_comm=comm, **OUTSIDE)
    scene.pass_time(end_ns)
    scene.exit(RANK, number if status is None else status)
    death = death_of(scene)
    assert death is not None
    return death


def test_signals_have_the_names_that_the_system_gives_them() -> None:
    assert {*range(1, 16), 24, 25, 31} == set(SIGNAL_NAMES)
    assert {number: signal.Signals(number).name for number in SIGNAL_NAMES} == dict(SIGNAL_NAMES)
    assert "signal 34" == signal_name(34)
    assert {"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"} == {
        signal_name(number) for number in CRASH_SIGNALS
    }


@pytest.mark.parametrize(
    ("status", "number", "code", "failed", "text"),
    [
        (0, 0, 0, False, "exit 0"),
        (3 << 8, 0, 3, True, "exit 3"),
        (9, 9, 0, True, "signal 9 (SIGKILL)"),
        (0x80 | 11, 11, 0, True, "signal 11 (SIGSEGV)"),
        (0xFF << 8 | 9, 9, 0, True, "signal 9 (SIGKILL)"),
    ],
)
def test_a_wait_status_is_read_as_the_kernel_writes_it(
    status: int, number: int, code: int, failed: bool, text: str
) -> None:
    scene = begun()
    scene.exit(RANK, status)
    death = death_of(scene)

    assert death is not None
    assert (number, code, failed, text) == (death.signal, death.code, death.failed, death.status)


def test_only_ends_that_were_seen_of_processes_of_the_job_are_told_in_time_order() -> None:
    scene = begun()
    scene.exit(500, 1, in_tree=0)
    scene.exit(WORKERS[1], 0)
    scene.pass_time(-1)
    scene.exit(501, 1, in_tree=1)

    assert [501, WORKERS[1]] == [death.id.tgid for death in find_deaths(Story(scene.events))]


def test_the_kernels_word_of_an_end_comes_before_the_parents() -> None:
    scene = begun()
    scene.pass_time(NS_PER_S)
    ended = JobEnded(ts_ns=scene.now_ns + 5, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=9)
    scene.add(ended)
    only_waited = death_of(scene, LAUNCHER)
    scene.exit(LAUNCHER, 1 << 8)
    death = death_of(scene, LAUNCHER)

    assert death is not None
    assert only_waited is not None
    assert (scene.now_ns, "exit 1", False) == (death.at_ns, death.status, death.waits_agree)
    assert (scene.now_ns + 5, "signal 9 (SIGKILL)", True) == (
        only_waited.at_ns,
        only_waited.status,
        only_waited.waits_agree,
    )


@pytest.mark.parametrize(("waited", "agree"), [(11, True), (10, False), (0x8B, True), (9, False), (11 | 1 << 8, False)])
def test_a_parents_wait_agrees_whether_or_not_a_core_was_dumped(waited: int, agree: bool) -> None:
    scene = begun()
    scene.exit(LAUNCHER, 0x80 | 11)
    scene.add(JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=waited))
    death = death_of(scene, LAUNCHER)

    assert death is not None
    assert agree == death.waits_agree
    assert 2 == len(death.evidence)


def test_of_several_sigkills_the_first_ended_it() -> None:
    assert "a" == getattr(sent(begun(), "a", "b", number=9).by, "sender_comm", None)


def test_of_several_signals_that_can_be_handled_the_last_ended_it() -> None:
    death = sent(begun(), "a", "b")

    assert "b" == getattr(death.by, "sender_comm", None)
    assert "a" == getattr(death.terminated, "sender_comm", None)


def test_a_signal_counts_up_to_the_very_end() -> None:
    assert sent(begun(), "a", end_ns=0).by is not None
    assert sent(begun(), "a", end_ns=-1).by is None


def test_a_signal_that_was_not_delivered_did_nothing() -> None:
    scene = begun()
    scene.signal(RANK, 15, result=1, sender_comm="ignored", **OUTSIDE)
    death = sent(scene, status=15)

    assert (None, None) == (death.by, death.terminated)


def test_signals_of_another_number_or_to_an_exit_are_not_its_cause() -> None:
    killed = sent(begun(), "a", number=15, status=9)

    assert killed.by is None
    assert killed.terminated is not None
    assert sent(begun(), "a", status=0).by is None
    assert sent(begun(), "a", number=11, status=15).terminated is None


@pytest.mark.parametrize(("gap_ns", "passed_on"), [(NS_PER_S, True), (5 * NS_PER_S, True), (5 * NS_PER_S + 1, False)])
def test_a_signal_sent_to_itself_passes_on_what_came_within_five_seconds(gap_ns: int, passed_on: bool) -> None:
    scene = begun()
    for comm in ("early", "late"):
        scene.signal(RANK, 15, sender_comm=comm, **OUTSIDE)
        scene.pass_time(1)
    scene.signal(RANK, 15, sender_comm="itself")
    scene.pass_time(gap_ns - 1)
    scene.signal(RANK, 15, sender_comm="itself")
    death = sent(scene, status=15)

    assert ("late" if passed_on else "itself") == getattr(death.by, "sender_comm", None)


@pytest.mark.parametrize("other", [{"sender_tgid": RANK + 1}, {"sender_start_ns": start_of(RANK) + NS_PER_S}])
def test_only_the_process_itself_passes_on(other: dict[str, int]) -> None:
    scene = begun()
    scene.signal(RANK, 15, sender_comm="first", **OUTSIDE)
    scene.signal(RANK, 15, sender_comm="second", **other)

    assert "second" == getattr(sent(scene, status=15).by, "sender_comm", None)
