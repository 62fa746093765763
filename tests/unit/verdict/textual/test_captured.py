# SPDX-License-Identifier: Apache-2.0
"""Logs of real kernels, alone: each says of a kill what was recorded of it, at `likely`; damage makes it say less."""

import functools
import random
import re

import pytest

from tests.captured import Capture, captures, recording_of, unpacked
from tests.explained import explained
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Process

LOGS = [capture for capture in captures() if (capture.folder / "kmsg.xz").exists()]
SLACK_BYTES = 4 << 20
"""Other threads go on faulting between the mark, where the recording has it from, and the line of the log."""
OOM = ("host_oom_", "operator_oom")
NOT_TOLD = {"already-exiting"}
"""Nobody was killed: the reaper's line alone says that somebody was chosen."""

each_log = pytest.mark.parametrize("capture", LOGS, ids=str)


@functools.lru_cache(maxsize=256)
def recorded(capture: Capture) -> tuple[Incident, ...]:
    """Kills as the recording has them."""
    verdict = judge(list(recording_of(capture))).verdict
    return tuple(one for one in verdict.incidents if one.cause.startswith(OOM))


@functools.lru_cache(maxsize=256)
def kmsg(capture: Capture) -> bytes:
    return unpacked(capture.folder / "kmsg.xz")


def told(raw: bytes, kind: str = "kernel") -> list[Incident]:
    verdict = explained([("kmsg", kind, raw)])
    assert all(one.strength != "proved" for one in verdict.incidents)
    return [one for one in verdict.incidents if one.cause.startswith(OOM)]


def alike(one: Process, other: Process) -> list[str]:
    sizes = ("rss_anon_bytes", "rss_file_bytes", "rss_shmem_bytes")
    unlike = [name for name in sizes if abs((getattr(one, name) or 0) - (getattr(other, name) or 0)) > SLACK_BYTES]
    return unlike + [name for name in ("comm", "cgroup") if getattr(one, name) != getattr(other, name)]


@each_log
def test_the_log_alone_names_the_victim_and_the_limit_as_they_were_recorded(capture):
    live = recorded(capture)
    found = told(kmsg(capture))
    if not live:
        assert all(one.strength == "possible" for one in found)
        assert not found or capture.name in NOT_TOLD
        return
    kill = live[0]
    assert kill.victim is not None
    pids = {victim.pid for victim in kill.victims}
    same = [one for one in found if {victim.pid for victim in one.victims} & pids]

    assert [(one.cause, one.strength) for one in same[:1]] == [(kill.cause, "likely")]
    text = same[0]
    assert text.victim is not None
    assert text.victim.pid == kill.victim.pid
    assert alike(text.victim, kill.victim) == []
    assert text.limit is not None
    assert kill.limit is not None
    if kill.limit.limit_bytes is not None:
        assert (text.limit.cgroup, text.limit.limit_bytes) == (kill.limit.cgroup, kill.limit.limit_bytes)
        assert abs((text.limit.usage_bytes or 0) - (kill.limit.usage_bytes or 0)) <= SLACK_BYTES


@each_log
def test_in_a_training_log_the_same_lines_are_nothing_of_the_kernels(capture):
    assert told(kmsg(capture), "training") == []


def dropped(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines if chance.random() > 0.2]


def cut(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line[: chance.randrange(len(line) + 1)] if chance.random() < 0.2 else line for line in lines]


def shuffled(lines: list[bytes], chance: random.Random) -> list[bytes]:
    mixed = list(lines)
    chance.shuffle(mixed)
    return mixed


def duplicated(lines: list[bytes], chance: random.Random) -> list[bytes]:
    return [line for line in lines for _ in range(1 + (chance.random() < 0.2))]


def truncated(lines: list[bytes], chance: random.Random) -> list[bytes]:
    first = chance.randrange(len(lines) + 1)
    return lines[first : first + chance.randrange(len(lines) + 1)]


HOWS = (dropped, cut, shuffled, duplicated, truncated)


DAMAGED = [(capture, HOWS[(n + more) % len(HOWS)]) for n, capture in enumerate(LOGS) for more in (0, 2)]
"""Each log in two ways: all in all ways would take a minute."""


@pytest.mark.parametrize("capture, how", DAMAGED, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_damaged_log_never_names_another_victim_as_likely(capture, how):
    live = recorded(capture)
    victims = {(victim.pid, victim.comm) for one in told(kmsg(capture)) for victim in one.victims}
    pids = {pid for pid, _ in victims} | {victim.pid for one in live for victim in one.victims}
    pids |= {int(pid) for pid in re.findall(rb"Killed process ([0-9]+) ", kmsg(capture))}  # a thread of a victim's
    limits = {one.limit.cgroup for one in told(kmsg(capture)) if one.limit is not None}
    chance = random.Random(f"{capture}-{how.__name__}")

    for one in told(b"\n".join(how(kmsg(capture).split(b"\n"), chance))):
        if one.strength == "likely":
            assert {victim.pid for victim in one.victims} <= pids
            assert one.limit is None or one.limit.cgroup is None or one.limit.cgroup in limits
