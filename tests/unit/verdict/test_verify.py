# SPDX-License-Identifier: Apache-2.0
"""The commands that show whether a change helped: such as can be typed, and for the limit that it had."""

import shlex

import pytest

from tests.unit.verdict.comparison.growing import run
from tests.unit.verdict.scenes import Scene, changed, primary, worker_killed
from tracer.cli.commands import COMMANDS
from tracer.cli.parser import Program
from tracer.events import JobStarted
from tracer.units import GIB, MIB, NO_LIMIT_BYTES
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Remedy
from tracer.verdict.story import Story
from tracer.verdict.verify import AGAIN, filled_in, run_again, run_and_compare


def case(*, limit_bytes: int | None = None, own: bool = True, argv: tuple[str, ...] = ("python", "a file.py")) -> Case:
    scene = Scene()
    scene.begin(own_cgroup=own)
    scene.cgroup_sample(77, "/oomtrace/run-7f3", limit_bytes=limit_bytes)
    return Case(Story(changed(scene.finish(), JobStarted, argv=argv)))


@pytest.mark.parametrize(
    ("limit_bytes", "option"),
    [(2 * GIB, " --memory-max 2G"), (700 * MIB, " --memory-max 700M"), (5000, " --memory-max 5000"),
     (NO_LIMIT_BYTES, ""), (None, "")],
)  # fmt: skip
def test_the_job_runs_again_under_its_own_limit(limit_bytes: int | None, option: str) -> None:
    assert run_again(case(limit_bytes=limit_bytes), "x") == (
        f"sudo oomtrace run{option} --record x -- python 'a file.py'"
    )


def test_a_limit_that_was_not_made_for_the_job_is_not_made_again() -> None:
    assert "--memory-max" not in run_again(case(limit_bytes=2 * GIB, own=False), "x")


@pytest.mark.parametrize("argv", [(), ("python", "--token", "***"), ("python", "x" * 500)])
def test_a_command_that_cannot_be_typed_is_left_to_whoever_knows_it(argv: tuple[str, ...]) -> None:
    assert run_again(case(argv=argv), "x").endswith(" -- COMMAND")


def test_runs_are_compared_by_the_recording_that_there_is() -> None:
    assert run_and_compare(case(), 0, "my run.oomtrace").endswith("; oomtrace compare 'my run.oomtrace' after.oomtrace")
    assert run_and_compare(case(), 0, None).endswith("; oomtrace compare BEFORE.oomtrace after.oomtrace")


def grown(**given: float) -> str:
    """Of a job that is killed after 80 s of training."""
    scene = run(lambda at_s: (200 + 10 * at_s) * MIB, seconds=200, **given)
    return run_and_compare(Case(Story(scene.events)), scene.now_ns, "runs/my run.oomtrace")


def test_it_goes_as_far_as_the_run_before_and_has_its_limit() -> None:
    assert grown(epoch_s=10) == (
        "sudo oomtrace run --until epochs=9 --memory-max 1000M --record after.oomtrace -- torchrun train.py; "
        "oomtrace compare 'runs/my run.oomtrace' after.oomtrace"
    )  # the eighth was not whole


def test_within_one_epoch_it_goes_a_little_further_in_steps_and_without_marks_longer() -> None:
    assert "--until steps=" in grown(epoch_s=1000)
    assert "--for 3m" in grown()


def test_what_was_told_after_the_kill_is_no_part_of_the_goal() -> None:
    scene = run(lambda _: 200 * MIB, seconds=100, epoch_s=10)
    half_ns = (scene.events[0].ts_ns + scene.now_ns) // 2

    assert "--until epochs=5" in run_and_compare(Case(Story(scene.events)), half_ns, None)


@pytest.mark.parametrize("given", [{"epoch_s": 10}, {"epoch_s": 1000}, {}])
def test_what_is_to_be_typed_can_be_typed(given: dict[str, float]) -> None:
    commands = grown(**given).split("; ")

    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command)
        assert Program(COMMANDS).parse_args(words[words.index("oomtrace") + 1 :])


def test_only_what_was_left_open_is_filled_in() -> None:
    incident = Incident(
        cause="exited", strength="likely", remedies=(Remedy(do="a", verify=AGAIN), Remedy(do="b", verify="df"))
    )

    assert [one.verify for one in filled_in(incident, "c").remedies] == ["c", "df"]


def test_no_verdict_leaves_it_open() -> None:
    report = judge(worker_killed(), recording="r")

    assert all(remedy.verify != AGAIN for one in report.verdict.incidents for remedy in one.remedies)
    assert primary(report)
