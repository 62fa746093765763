# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of everything there is: cases, kernel logs of all formats, logs of real kernels. Strength may fall.

`OOMTRACE_TESTS_SEED=7 OOMTRACE_TESTS_COPIES=50` tries other copies, and more of them.
"""

import functools
import os
import random

import pytest

from tests import captured, explained, kernel_logs
from tests.fuzz.mutating import LOSSES
from tests.truth import Given, Truth, damaged, lies, truth_of, whole

SEED = os.environ.get("OOMTRACE_TESTS_SEED", "0")
COPIES = int(os.environ.get("OOMTRACE_TESTS_COPIES", "2"))
NO_TRUTH_IN_PARTS = {
    "looks-like-the-kernel-mixed": "without the job's own lines nothing tells such a line from one of the kernel's",
    "odd-newline-path": "without prefixes nothing tells a line end of a name from that of a record",
    "comm-size-el7": "a name that looks like the end of itself, cut just there",
}


@functools.cache
def everything() -> dict[str, Given]:
    """All texts, by a name for each set of them."""
    found: dict[str, Given] = {f"case {case.name}": case.texts() for case in explained.cases()}
    found |= {f"log {case.name}": [(f"{case.name}.log", "mixed", case.raw)] for case in kernel_logs.cases()}
    return {name: given for name, given in found.items() if name.split()[1] not in NO_TRUTH_IN_PARTS}


CAPTURES = [capture for capture in captured.captures() if (capture.folder / "kmsg.xz").exists()]


@functools.lru_cache(maxsize=4)
def log_of(capture: captured.Capture) -> tuple[Given, Truth]:
    given = [("kmsg", "kernel", captured.unpacked(capture.folder / "kmsg.xz"))]
    return given, truth_of(given)


def tell_no_lies(name: str, given: Given, truth: Truth, hows, copies: int) -> None:
    for how in hows:
        for copy in range(copies):
            seed = f"{SEED} {name} {how.__name__} {copy}"
            verdict, _, _ = whole(damaged(given, how, random.Random(seed)))

            assert lies(verdict, truth) == [], f"seed {seed!r}"


@pytest.mark.parametrize("name", everything())
def test_damage_makes_a_verdict_say_less_and_nothing_else(name):
    given = everything()[name]

    tell_no_lies(name, given, truth_of(given), LOSSES, COPIES)


@pytest.mark.parametrize("number, capture", list(enumerate(CAPTURES)), ids=[str(capture) for capture in CAPTURES])
def test_damage_to_the_log_of_a_real_kernel_makes_a_verdict_say_less(number, capture):
    given, truth = log_of(capture)

    tell_no_lies(str(capture), given, truth, [LOSSES[number % len(LOSSES)]], 1 if COPIES <= 2 else COPIES)


def test_a_lie_would_be_seen():
    given = everything()["case worker-by-pid"]
    verdict, _, _ = whole(given)
    other = truth_of(everything()["case global"])

    assert lies(verdict, truth_of(given)) == []
    assert lies(verdict, other) == ["pid 41233 was not killed"]


@pytest.mark.parametrize("name", NO_TRUTH_IN_PARTS)
def test_what_is_left_out_is_there_and_is_never_proved(name):
    texts = {case.name: case.texts() for case in explained.cases()}
    texts |= {case.name: [(case.name, "mixed", case.raw)] for case in kernel_logs.cases()}

    for how in LOSSES:
        verdict, _, _ = whole(damaged(texts[name], how, random.Random(f"{SEED} {name}")))
        assert all(one.strength != "proved" for one in verdict.incidents)
