# SPDX-License-Identifier: Apache-2.0
"""Jobs whose first process is a shell script: what its status repeats, and the helpers that it ends by itself."""

from collections.abc import Callable

import pytest

from tests.unit.verdict.scenes import LAUNCHER, Scene, primary, start_of
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

HELPER, MAIN = 300, 301
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}
BY_SHELL = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}


def script() -> Scene:
    """A shell with a helper in the background and a main command."""
    scene = Scene()
    scene.begin()
    scene.seen(LAUNCHER, 1, "bash", {})
    scene.fork(HELPER, LAUNCHER, comm="sleep")
    scene.fork(MAIN, LAUNCHER)
    return scene


def helper_ended(scene: Scene, number: int) -> None:
    scene.signal(HELPER, number, sender_comm="bash", **BY_SHELL)
    scene.exit(HELPER, number, comm="sleep")


def exits(scene: Scene) -> int:
    scene.exit(MAIN, 1 << 8)
    return 1


def crashes(scene: Scene) -> int:
    scene.signal(MAIN, 6, code=-6, **{**OUTSIDE, "sender_tgid": MAIN, "sender_start_ns": start_of(MAIN)})
    scene.exit(MAIN, 6)
    return 134


def is_killed(scene: Scene) -> int:
    scene.signal(MAIN, 9, sender_comm="slurmstepd", **OUTSIDE)
    scene.exit(MAIN, 9)
    return 137


def is_oom_killed(scene: Scene) -> int:
    scene.kill(MAIN, comm="python3")
    return 137


@pytest.mark.parametrize("number", [9, 15])
@pytest.mark.parametrize("before_ns", [0, 2 * NS_PER_S, 8 * NS_PER_S])
@pytest.mark.parametrize(
    ("fails", "cause"),
    [(exits, "exited"), (crashes, "crash"), (is_killed, "sigkill"), (is_oom_killed, "host_oom_cgroup")],
)
def test_a_helper_that_the_shell_ends_is_not_why_its_main_command_failed(
    fails: Callable[[Scene], int], cause: str, before_ns: int, number: int
) -> None:
    scene = script()
    if before_ns:
        helper_ended(scene, number)
        scene.pass_time(before_ns)
    code = fails(scene)
    if not before_ns:
        scene.pass_time(NS_PER_MS)
        helper_ended(scene, number)
    incident: Incident = primary(judge(scene.finish(code << 8)))

    assert cause == incident.cause
    assert incident.victim is not None
    assert HELPER != incident.victim.pid


def test_a_helper_killed_from_outside_is_not_the_137_of_a_later_kill() -> None:
    scene = script()
    scene.signal(HELPER, 9, **OUTSIDE)
    scene.exit(HELPER, 9, comm="sleep")
    scene.pass_time(3 * NS_PER_S)
    code = is_oom_killed(scene)

    assert "host_oom_cgroup" == primary(judge(scene.finish(code << 8))).cause


@pytest.mark.parametrize("number", [9, 15])
def test_a_shell_that_repeats_the_end_of_what_it_ended_itself_failed_of_that(number: int) -> None:
    scene = script()
    helper_ended(scene, number)
    incident = primary(judge(scene.finish((128 + number) << 8)))

    assert incident.victim is not None
    assert (HELPER, number) == (incident.victim.pid, incident.signal)


def test_a_kill_in_the_jobs_own_cgroup_that_cannot_be_placed_is_not_called_a_strangers() -> None:
    scene = script()
    mark = scene.mark(4242, 4242, comm="python3")
    scene.levels(mark)
    scene.oom_signal(4242, 4242, in_tree=0)
    scene.exit(4242, 9, oom_marked=1, in_tree=0)
    report = judge(scene.finish(0))

    assert all("outside this job" not in caveat for caveat in report.verdict.caveats)
    assert not any(entry.outside for entry in report.timeline)
