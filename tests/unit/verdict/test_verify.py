# SPDX-License-Identifier: Apache-2.0
"""The commands that show whether a change helped: such as can be typed, and for the limit that it had."""

import pytest

from tests.unit.verdict.scenes import Scene, changed, primary, worker_killed
from tracer.events import JobStarted
from tracer.units import GIB, MIB, NO_LIMIT_BYTES
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Remedy
from tracer.verdict.story import Story
from tracer.verdict.verify import AGAIN, filled_in, run_again, until_an_epoch


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
    assert until_an_epoch(case(), "my run.oomtrace").endswith("; oomtrace compare 'my run.oomtrace' after.oomtrace")
    assert until_an_epoch(case(), None).endswith("; oomtrace compare BEFORE.oomtrace after.oomtrace")


def test_only_what_was_left_open_is_filled_in() -> None:
    incident = Incident(
        cause="exited", strength="likely", remedies=(Remedy(do="a", verify=AGAIN), Remedy(do="b", verify="df"))
    )

    assert [one.verify for one in filled_in(incident, "c").remedies] == ["c", "df"]


def test_no_verdict_leaves_it_open() -> None:
    report = judge(worker_killed(), recording="r")

    assert all(remedy.verify != AGAIN for one in report.verdict.incidents for remedy in one.remedies)
    assert primary(report)
