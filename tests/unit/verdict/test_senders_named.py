# SPDX-License-Identifier: Apache-2.0
"""Who sent a signal, in the document and in words: named only where the sender is in the record."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, Scene, start_of
from tests.unit.verdict.test_people import HELPER, VICTIM, job, story
from tracer.events import Header, SignalInfo, SignalSent
from tracer.events.signals import CRASH_SIGNALS, PF_EXITING, PF_KTHREAD
from tracer.units import NS_PER_S
from tracer.verdict import senders

TRACER = 99
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
BY_TRACER = {"sender_tgid": TRACER, "sender_tid": TRACER, "sender_start_ns": 5, "sender_comm": "oomtrace"}


def by(pid: int) -> dict[str, Any]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid), "sender_comm": "name"}


def sender(number: int = 9, pid: int = VICTIM, scene: Scene | None = None, **sent: Any) -> tuple[Any, ...] | None:
    scene = scene or job()
    signal = scene.signal(pid, number, **sent)
    who = senders.sender(story(scene), signal)
    return None if who is None else (who.kind, who.pid, who.comm)


@pytest.mark.parametrize(
    ("sent", "who"),
    [
        ({**OUTSIDE}, ("outside", 7, "bash")),
        ({**OUTSIDE, "code": -1}, ("outside", 7, "bash")),
        ({**OUTSIDE, "code": -6}, ("outside", 7, "bash")),
        ({**OUTSIDE, "info": SignalInfo.NOINFO, "code": 77}, ("outside", 7, "bash")),
        ({**OUTSIDE, "info": SignalInfo.NOINFO, "sender_flags": PF_EXITING}, ("kernel", None, None)),
        ({**OUTSIDE, "info": SignalInfo.NOINFO, "sender_flags": 1}, ("outside", 7, "bash")),
        ({**OUTSIDE, "sender_flags": 1}, ("outside", 7, "bash")),
        ({**OUTSIDE, "sender_flags": PF_EXITING}, ("outside", 7, "bash")),
        ({**OUTSIDE, "info": SignalInfo.PRIV}, ("kernel", None, None)),
        ({**OUTSIDE, "info": SignalInfo.FORCED}, ("kernel", None, None)),
        ({**OUTSIDE, "sender_flags": PF_KTHREAD}, ("kernel", None, None)),
        ({**OUTSIDE, "sender_flags": PF_KTHREAD | PF_EXITING}, ("kernel", None, None)),
        ({**OUTSIDE, "code": 1}, None),
        ({**OUTSIDE, "code": -2}, None),
        ({}, ("self", VICTIM, "s")),
        (by(RANK), ("launcher", RANK, "name")),
        (by(LAUNCHER), ("launcher", LAUNCHER, "name")),
        (by(HELPER), ("job", HELPER, "name")),
        ({**by(HELPER), "sender_start_ns": start_of(HELPER) + NS_PER_S}, ("outside", HELPER, "name")),
    ],
)
def test_a_sender_is_named_where_the_signal_was_sent_in_its_own_context(
    sent: dict[str, Any], who: tuple[Any, ...] | None
) -> None:
    assert who == sender(**sent)


@pytest.mark.parametrize("number", sorted(CRASH_SIGNALS))
def test_a_fault_is_raised_by_the_kernel(number: int) -> None:
    assert ("kernel", None, None) == sender(number, code=1)
    assert ("self", VICTIM, "s") == sender(number)


@pytest.mark.parametrize("number", [1, 2, 3, 9, 10, 12, 15, 30])
def test_a_positive_code_of_another_signal_is_no_fault(number: int) -> None:
    assert sender(number, code=1) is None


def passed_on(*got: tuple[int, dict[str, Any]], **sent: Any) -> SignalSent | None:
    """What the tracer got (ns before, fields), when it sends SIGTERM to the job."""
    scene = job()
    at_ns = scene.now_ns
    for before_ns, fields in got:
        values = {"tgid": TRACER, "start_ns": 5, "ts_ns": at_ns - before_ns, **OUTSIDE, **fields}
        scene.signal(TRACER, values.pop("number", 15), **values)
    signal = scene.signal(LAUNCHER, 15, **{**BY_TRACER, **sent})
    return senders.passed_on(story(scene), signal)


def test_what_the_tracer_passed_on_is_what_it_had_just_got() -> None:
    assert passed_on() is None
    assert passed_on((0, {})) is not None
    assert passed_on((NS_PER_S, {})) is not None
    assert passed_on((NS_PER_S + 1, {})) is None
    assert passed_on((-1, {})) is None
    assert passed_on((1, {"number": 9})) is None
    assert passed_on((1, {"tgid": 98})) is None
    assert passed_on((1, {}), **OUTSIDE) is None
    assert passed_on((1, {}), code=-2) is None
    assert "new" == getattr(passed_on((2, {}), (1, {"sender_comm": "new"})), "sender_comm", None)


def test_a_signal_that_was_passed_on_comes_from_whoever_sent_it_first() -> None:
    scene = job()
    scene.signal(TRACER, 15, **OUTSIDE)
    signal = scene.signal(LAUNCHER, 15, **BY_TRACER)
    alone = job()
    bare = alone.signal(LAUNCHER, 15, **BY_TRACER)
    facts, others = story(scene), story(alone)

    assert "bash" == getattr(senders.sender(facts, signal), "comm", None)
    assert "'bash' (pid 7)" == senders.sender_name(facts, signal)
    assert senders.sender_text(facts, signal).endswith("from outside the job through oomtrace")
    assert "oomtrace, which passed it on" == senders.sender_name(others, bare) == senders.sender_text(others, bare)


def test_without_a_header_nothing_is_known_to_be_from_the_tracer() -> None:
    scene = job()
    signal = scene.signal(LAUNCHER, 15, **BY_TRACER)
    scene.items = [event for event in scene.items if not isinstance(event, Header)]

    assert "'oomtrace' (pid 99)" == senders.sender_name(story(scene), signal)


@pytest.mark.parametrize(
    ("sent", "name", "text"),
    [
        (OUTSIDE, "'bash' (pid 7)", "'bash' (pid 7, uid 0, started by 'p'), from outside the job"),
        ({**OUTSIDE, "sender_parent_comm": ""}, "'bash' (pid 7)", "'bash' (pid 7, uid 0), from outside the job"),
        # Process 1 was started by nobody: its parent is the idle task.
        ({**OUTSIDE, "sender_parent_tgid": 0}, "'bash' (pid 7)", "'bash' (pid 7, uid 0), from outside the job"),
        ({**OUTSIDE, "info": SignalInfo.PRIV}, "the kernel", "the kernel"),
        ({**OUTSIDE, "code": -2}, "an unknown sender", "an unknown sender"),
        ({}, "itself", "itself"),
        (by(RANK), f"rank 0 (pid {RANK})", f"rank 0 (pid {RANK}), of the same job"),
        (by(HELPER), f"'name' (pid {HELPER})", f"'name' (pid {HELPER}), of the same job"),
    ],
)
def test_a_sender_is_told_in_a_headline_and_in_full(sent: dict[str, Any], name: str, text: str) -> None:
    scene = job()
    signal = scene.signal(VICTIM, 9, **sent)

    assert (name, text) == (senders.sender_name(story(scene), signal), senders.sender_text(story(scene), signal))
