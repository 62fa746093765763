# SPDX-License-Identifier: Apache-2.0
"""What is said where two recordings do not belong together, or are the same, or ended in two ways."""

import msgspec
import pytest

from tests.unit.verdict.comparison.growing import Growing, run
from tests.unit.verdict.scenes import RANK
from tracer.events import Header, JobStarted, OutputWatched, TrainingLine
from tracer.units import MIB
from tracer.verdict.comparison import compare, judged


def leak(mib_per_epoch):
    return run(lambda at_s: (200 + mib_per_epoch * at_s / 10) * MIB, seconds=100, epoch_s=10).events


def of(events, argv=("python", "train.py"), *, later_ns=0):
    """As that command, on one boot of a machine."""

    def changed(event):
        if isinstance(event, JobStarted):
            return msgspec.structs.replace(event, argv=argv, ts_ns=event.ts_ns + later_ns)
        return msgspec.structs.replace(event, boot_id="b") if isinstance(event, Header) else event

    return judged([changed(event) for event in events])


def without_ranks():
    scene = Growing()
    scene.begin()
    for second in range(100):
        scene.say(2 + second, epoch=1 + second // 10, step=10 * (second % 10))
        scene.holds(2 + second, 200 * MIB)
    scene.ends(103)
    return scene.events


def refused():
    """It grows by 20 MiB a second, until a MemoryError."""
    scene = Growing()
    scene.alone()
    for second in range(30):
        scene.say(2 + second, epoch=1 + second // 3)
        scene.holds(2 + second, (100 + 20 * second) * MIB, limit_bytes=1 << 62)
    scene.at(32)
    scene.add(TrainingLine(ts_ns=scene.now_ns, source="text", about="host_alloc", text="MemoryError",
                           what="MemoryError", stream="stderr"))  # fmt: skip
    for second in (33, 34, 35):
        scene.holds(second, 100 * MIB, limit_bytes=1 << 62)
    scene.at(35.5)
    scene.exit(RANK, 1 << 8)
    scene.ends(36, 1 << 8)
    return scene.events


def test_of_another_program_with_other_ranks_nothing_is_fixed():
    found = compare(of(leak(100)), of(without_ranks(), ("python", "serve.py")))

    assert found.outcome == "cannot_tell"
    assert "train.py with 1 rank, and serve.py with 0 ranks" in found.statement


@pytest.mark.parametrize("argv", [("python", "train.py", "--fixed"), ("python", "train_fixed.py")])
def test_a_change_may_be_an_argument_or_another_file(argv):
    assert compare(of(leak(100)), of(leak(0), argv)).outcome == "fixed"


def test_one_and_the_same_run_is_said_to_be_that():
    events = leak(100)

    assert "BEFORE and AFTER are one and the same run." in compare(of(events), of(events)).caveats


@pytest.mark.parametrize(("later_ns", "told"), [(1, False), (-1, True)])
def test_that_the_second_was_recorded_first_is_said(later_ns, told):
    found = compare(of(leak(0)), of(leak(100), later_ns=later_ns))

    assert any("the wrong way round" in caveat for caveat in found.caveats) == told


def test_who_was_refused_memory_was_not_killed():
    found = compare(of(refused()), of(refused()))

    assert found.before.cause == "host_allocation_failed"
    assert found.outcome == "unchanged"
    assert "AFTER was refused memory, too" in found.statement
    assert "killed" not in found.statement


def test_what_comes_behind_a_refusal_is_no_part_of_the_growth():
    found = compare(of(refused()), of(refused()))

    assert found.before.parts[0].last_bytes == 680 * MIB


def test_a_refusal_in_the_place_of_a_kill_is_another_failure():
    found = compare(of(leak(100)), of(refused()))

    assert found.outcome == "cannot_tell"
    assert "another failure" in found.statement


@pytest.mark.parametrize("rate", [30, 100, 200])
def test_the_sentence_and_the_table_tell_the_same_numbers(rate):
    found = compare(of(leak(100)), of(leak(rate)))

    for side in (found.before, found.after):
        assert f"{round(side.growth_bytes.value / MIB)} MiB" in found.statement


def test_of_whom_the_output_was_not_read_is_said_and_how_it_is():
    scene = run(lambda at_s: (200 + 10 * at_s) * MIB, seconds=100)
    silent = scene.events
    scene.add(OutputWatched(ts_ns=scene.now_ns, source="tracer"))
    read = scene.events

    assert "the output of BEFORE was not read (`run --log FILE`" in compare(of(silent), of(read)).aligned.statement
    assert "no epochs or steps in common" in compare(of(read), of(read)).aligned.statement
    assert "the output of BEFORE and AFTER was" in compare(of(silent), of(silent)).aligned.statement
