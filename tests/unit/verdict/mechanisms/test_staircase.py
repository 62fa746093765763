# SPDX-License-Identifier: Apache-2.0
"""Growth once an epoch, and growth all along: told apart only where whole epochs were seen."""

import pytest

from tracer.units import MIB, NS_PER_S
from tracer.verdict.marks import Mark
from tracer.verdict.mechanisms.staircase import staircase

EPOCH_S = 10


def epochs(number, epoch_s, known_by="log"):
    return [
        Mark(at_ns=n * epoch_s * NS_PER_S, number=float(n), known_by=known_by, text=f"epoch {n}", evidence=n)
        for n in range(number)
    ]


def looks(held, until_s, epoch_s):
    """Once a second; what did not change is not written."""
    found = []
    for second in range(until_s + 1):
        size = round(held(second * EPOCH_S / epoch_s) * MIB)
        if not found or found[-1][1] != size:
            found.append((second * NS_PER_S, size))
    return found


def at_the_end_of_each(at_s):
    """A step within the last second of an epoch."""
    whole, rest = divmod(at_s, EPOCH_S)
    return 100 + 40 * (whole + max(0.0, rest - 9))


def all_along(at_s):
    return 100 + 4 * at_s


def judged(held, *, number=5, until_s=45, epoch_s=EPOCH_S, **kind):
    return staircase(looks(held, until_s, epoch_s), epochs(number, epoch_s, **kind), until_s * NS_PER_S)


def test_a_step_at_the_end_of_each_epoch_is_a_staircase():
    found = judged(at_the_end_of_each)

    assert found.once
    assert found.epochs == 3  # the first one has the start of everything in it, the last one is not over
    assert round(found.step_bytes / MIB) == 40
    assert found.statement.startswith("each of 3 epochs added 40 MiB: ")
    assert found.statement.endswith("of that in one third of it, always the same")


def test_a_step_round_the_turn_of_an_epoch_is_one_as_well():
    assert judged(lambda at_s: at_the_end_of_each(at_s - 0.5)).once


def test_growth_all_along_is_none():
    found = judged(all_along)

    assert not found.once
    assert found.statement == "each of 3 epochs added 40 MiB: all along, and not at one place of it"


def test_steps_that_one_epoch_alone_has_are_none():
    found = judged(lambda at_s: 100 + (120 if at_s > 25 else 0))

    assert found is None or not found.once


def test_how_epochs_were_told_apart_is_said_where_it_was_not_by_the_log():
    assert "starts of DataLoader workers" in judged(at_the_end_of_each, known_by="workers").statement


@pytest.mark.parametrize(
    "more", [{"number": 3, "until_s": 29}, {"number": 0}, {"epoch_s": 5, "number": 9}, {"until_s": 5}], ids=repr
)
def test_of_too_few_or_too_short_epochs_nothing_is_said(more):
    assert judged(at_the_end_of_each, **more) is None


def test_of_hardly_any_growth_nothing_is_said():
    assert judged(lambda at_s: 100 + at_s / 10) is None


def test_without_a_look_nothing_is_said():
    assert staircase([], epochs(5, EPOCH_S), 45 * NS_PER_S) is None
