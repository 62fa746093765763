# SPDX-License-Identifier: Apache-2.0
"""What to type to see whether a change helped: with the limit, the goal and the command of this very run."""

import shlex

from tests.unit.verdict.comparison.growing import run
from tracer.cli.commands import COMMANDS
from tracer.cli.parser import Program
from tracer.units import MIB, NS_PER_S
from tracer.verdict.comparison.command import verification
from tracer.verdict.story import Story


def of(**given):
    scene = run(lambda at_s: (200 + 10 * at_s) * MIB, seconds=200, **given)
    return verification(Story(scene.events), scene.now_ns, "runs/my run.oomtrace")


def test_it_goes_as_far_as_this_run_went_and_has_its_limit():
    found = of(epoch_s=10)

    assert "--until epochs=9" in found.run  # the eighth was not whole
    assert "--memory-max 1000M" in found.run
    assert found.run.endswith("-- torchrun train.py")
    assert found.compare == "oomtrace compare 'runs/my run.oomtrace' after.oomtrace"


def test_within_one_epoch_it_goes_a_little_further_in_steps_and_without_marks_longer():
    assert "--until steps=" in of(epoch_s=1000).run
    assert "--for 3m" in of().run


def test_what_is_to_be_typed_can_be_typed():
    for given in ({"epoch_s": 10}, {"epoch_s": 1000}, {}):
        for line in of(**given):
            words = shlex.split(line)
            assert Program(COMMANDS).parse_args(words[words.index("oomtrace") + 1 :])


def test_who_had_no_limit_of_its_own_gets_none():
    scene = run(lambda at_s: 200 * MIB, seconds=30, epoch_s=10)
    left = [event for event in scene.events if type(event).__name__ != "CgroupSample"]

    assert "--memory-max" not in verification(Story(left), 60 * NS_PER_S).run
