# SPDX-License-Identifier: Apache-2.0
"""A leak that is still there is never called fixed. So it was over 400 pairs of each shape; some are here."""

import pytest

from tests.unit.verdict.comparison.simulated import SHAPES, unfixed_pair

PAIRS = 25


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_leak_again_is_never_fixed(shape):
    outcomes = [unfixed_pair(shape, seed).outcome for seed in range(PAIRS)]

    assert "fixed" not in outcomes


@pytest.mark.parametrize("shape", ["linear", "stairs"])
def test_the_same_leak_again_is_mostly_unchanged_and_hardly_ever_less_or_more(shape):
    outcomes = [unfixed_pair(shape, seed).outcome for seed in range(PAIRS)]

    assert outcomes.count("unchanged") >= PAIRS / 2
    assert outcomes.count("reduced") + outcomes.count("worse") <= 2
