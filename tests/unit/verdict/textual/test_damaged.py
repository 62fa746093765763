# SPDX-License-Identifier: Apache-2.0
"""Copies of all cases, lines lost, cut, shuffled and doubled: strength may fall, nobody else becomes a victim."""

import random

import pytest

from tests.explained import cases, explained

ALL = cases()
ONLY_BY_ITS_SURROUNDINGS = {"looks-like-the-kernel-mixed"}
"""Without the job's own lines nothing tells such a line from one of the kernel's."""

each_case = pytest.mark.parametrize(
    "case", [case for case in ALL if case.name not in ONLY_BY_ITS_SURROUNDINGS], ids=lambda case: case.name
)


def dropped(lines, chance):
    return [line for line in lines if chance.random() > 0.25]


def cut(lines, chance):
    return [line[: chance.randrange(len(line) + 1)] if chance.random() < 0.3 else line for line in lines]


def shuffled(lines, chance):
    return chance.sample(lines, len(lines))


def doubled(lines, chance):
    return [line for line in lines for _ in range(1 + (chance.random() < 0.4))]


def garbled(lines, chance):
    return [line + bytes([chance.randrange(256)]) if chance.random() < 0.3 else line for line in lines]


HOWS = (dropped, cut, shuffled, doubled, garbled)


def by_the_kernel(verdict, *strengths):
    return {
        victim.pid
        for incident in verdict.incidents
        if incident.cause.startswith(("host_oom_", "operator_oom")) and incident.strength in strengths
        for victim in incident.victims
    }


@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.__name__)
@each_case
def test_damage_never_makes_a_victim_of_somebody_else_nor_a_proof(case, how):
    whole = explained(case.texts())
    known = by_the_kernel(whole, "likely", "possible")
    chance = random.Random(f"{case.name}-{how.__name__}")

    for _ in range(8):
        texts = [(name, kind, b"\n".join(how(raw.split(b"\n"), chance))) for name, kind, raw in case.texts()]
        verdict = explained(texts)

        assert all(incident.strength != "proved" for incident in verdict.incidents)
        assert by_the_kernel(verdict, "likely") <= known


@each_case
def test_lines_that_are_doubled_change_nothing_but_their_places(case):
    whole = explained(case.texts())
    doubled_texts = [
        (name, kind, b"".join(line + line for line in raw.splitlines(keepends=True)))
        for name, kind, raw in case.texts()
    ]
    twice = explained(doubled_texts).incidents[0]

    assert (twice.cause, twice.strength) == (whole.incidents[0].cause, whole.incidents[0].strength)
    assert twice.victim == whole.incidents[0].victim
