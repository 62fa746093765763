# SPDX-License-Identifier: Apache-2.0
"""The job stood still for want of memory: told from its cgroup's counts, and never beside a kill or for a moment."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, Scene, primary
from tracer.events import AnyEvent, CgroupSample
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

STEP_NS = 100 * NS_PER_MS
HIGH = {"high_limit_bytes": 32 * MIB, "limit_bytes": NO_LIMIT_BYTES, "usage_bytes": 33 * MIB, "oom_kill": 0}
FULL = {"limit_bytes": 64 * MIB, "usage_bytes": 64 * MIB, "oom_kill": 0}


def sampled(steps: int, fields: dict[str, Any], *, own: bool = True, cgroup_id: int = 77, **per_step: int) -> Scene:
    """Samples of the job's cgroup, in which some counts rise with each."""
    scene = Scene()
    scene.begin(own_cgroup=own)
    for step in range(steps + 1):
        rising = {name: step * rise for name, rise in per_step.items()}
        scene.add(CgroupSample(ts_ns=scene.now_ns, path="/oomtrace/run-7f3", cgroup_id=cgroup_id, **fields, **rising))
        scene.pass_time(STEP_NS)
    return scene


def stalls(events: list[AnyEvent]) -> list[Incident]:
    return [i for i in judge(events).verdict.incidents if i.cause == "memory_stall"]


def test_a_job_that_memory_high_throttles_and_somebody_kills_was_stalled_before() -> None:
    scene = sampled(40, HIGH, high=3, psi_full_total_us=50_000)
    scene.signal(LAUNCHER, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1, sender_comm="bash")
    events = scene.finish(9)
    (stall,) = stalls(events)

    assert "sigkill" == primary(judge(events)).cause
    assert ("likely", ["present"] * 4) == (stall.strength, [link.status for link in stall.proof])
    assert "all its tasks stood still for 2.0 s of 4.0 s" in stall.proof[0].statement
    assert "33 MiB of 32 MiB; run into 120 times" in stall.proof[1].statement
    assert "held up for 4.0 s, until launcher" in stall.summary
    assert "memory.high throttles it" in stall.summary


@pytest.mark.parametrize(
    ("steps", "fields", "per_step"),
    [
        (40, HIGH, {"high": 3, "psi_full_total_us": 5_000}),  # it hardly waits
        (40, HIGH, {"high": 0, "psi_full_total_us": 50_000}),  # it waits for something else
        (40, HIGH, {"high": 3}),  # nothing counts the waiting here
        (10, HIGH, {"high": 3, "psi_full_total_us": 50_000}),  # a moment
        (40, HIGH | {"oom_kill": None}, {"high": 3, "psi_full_total_us": 50_000}),  # kills are not counted
        (40, {**HIGH, "high_limit_bytes": NO_LIMIT_BYTES}, {"high": 3, "psi_full_total_us": 50_000}),
        (20, FULL, {"oom": 2}),
        (2, FULL, {"oom": 50}),
        (20, FULL | {"under_oom": 1, "oom_kill_disable": 0}, {}),
        (20, FULL | {"under_oom": 0, "oom_kill_disable": 1}, {}),
    ],
)
def test_what_every_job_goes_through_is_no_stall(steps: int, fields: dict[str, Any], per_step: dict[str, int]) -> None:
    assert [] == stalls(sampled(steps, fields, **per_step).finish())


def test_where_a_kill_was_counted_it_did_not_stand_still() -> None:
    fields = {name: value for name, value in FULL.items() if name != "oom_kill"}

    assert [] == stalls(sampled(20, fields, oom=50, oom_kill=1).finish())


def test_a_kill_in_between_parts_two_stalls() -> None:
    scene = sampled(24, HIGH, high=3, psi_full_total_us=50_000)
    for step in range(31):
        counts = {"high": 72 + 3 * step, "psi_full_total_us": 1_200_000 + 50_000 * step, "oom_kill": 1}
        scene.add(CgroupSample(ts_ns=scene.now_ns, path="/r", cgroup_id=77, **HIGH | counts))
        scene.pass_time(STEP_NS)
    (stall,) = stalls(scene.finish())

    assert "all its tasks stood still for 1.5 s of 3.0 s" in stall.proof[0].statement
    assert "no OOM kill in that time" in stall.proof[3].statement


def test_without_anyone_to_kill_it_tries_for_ever() -> None:
    (stall,) = stalls(sampled(20, FULL, oom=50).finish())

    assert "nothing that could be killed" in stall.headline
    assert "64 MiB of 64 MiB; 1000 OOMs without a kill" in stall.proof[1].statement


def test_with_the_oom_killer_switched_off_it_sleeps_from_one_sample_to_the_next() -> None:
    scene = sampled(0, FULL | {"under_oom": 1, "oom_kill_disable": 1})
    scene.pass_time(NS_PER_S)
    after = CgroupSample(ts_ns=scene.now_ns, path="/oomtrace/run-7f3", cgroup_id=77, oom_kill=0, oom_kill_disable=1)
    scene.add(after)
    (stall,) = stalls(scene.finish())

    assert "switched off" in stall.headline
    assert "held up for 1.1 s" in stall.summary


def test_a_job_that_still_runs_is_told_why_it_gets_no_further() -> None:
    scene = sampled(40, HIGH, high=3, psi_full_total_us=50_000)
    events = [e for e in scene.finish(root_exit=False) if type(e).__name__ != "JobEnded"]

    assert "memory_stall" == primary(judge(events)).cause


def test_of_a_cgroup_that_others_live_in_less_is_said() -> None:
    (stall,) = stalls(sampled(40, HIGH, own=False, high=3, psi_full_total_us=50_000).finish())

    assert "not_observed" == stall.proof[2].status
