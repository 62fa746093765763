# SPDX-License-Identifier: Apache-2.0
"""What fuzzing found stays mended: its inputs are read again, and so is the work that a line takes, counted."""

import importlib.util
import random
import subprocess
import sys

import msgspec
import pytest

from tests.architecture.checkout import ROOT
from tests.explained import explained
from tests.fuzz.given import TARGETS, Broken, kernel_events, require, shown, signed, training_lines
from tests.fuzz.mutating import CHANGES, PREFIXES, WORDS, changed
from tests.fuzz.seeds import CORPUS, corpus_of, seeds_of
from tracer.attribution.cgroup_paths import place_of

FOUND = [(target, name) for target in TARGETS for name in corpus_of(target)]
COPIES = 40


@pytest.mark.parametrize("target, name", FOUND, ids=lambda value: value)
def test_what_broke_something_once_does_not_any_more(target, name):
    TARGETS[target](corpus_of(target)[name])


def test_all_that_was_found_is_of_a_target():
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    assert FOUND


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_seeds_break_nothing(target):
    seeds = list(seeds_of(target))
    for number in range(COPIES):
        raw = changed(seeds[number * 7 % len(seeds)], number)
        try:
            TARGETS[target](raw)
        except Exception as error:
            raise AssertionError(f"copy {number} of {target}") from error


def test_what_does_not_hold_would_be_seen():
    with pytest.raises(Broken):
        require(False, "no")
    verdict = explained([("a.log", "mixed", b"Killed")])
    shown(verdict, ascii_only=True)
    with pytest.raises(Broken):
        shown(msgspec.structs.replace(verdict, incidents=()), ascii_only=True)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_kind_of_damage_changes_something_and_follows_from_its_seed(change):
    lines = [b"[    1.000000] line %d of many, 4711" % number for number in range(40)]
    ends = [change(list(lines), random.Random(seed)) for seed in (1, 2, 1)]

    assert ends[0] == ends[2]
    assert any(end != lines for end in ends)


def test_a_recording_that_was_changed_is_signed_anew():
    seed = next(iter(seeds_of("recording")))
    changed_line = seed.replace(b'"kind"', b'"kinds"', 1)

    assert signed(seed) == seed
    assert signed(changed_line) != changed_line


def steps(read, raw: bytes) -> int:
    """Lines of Python that are run: the same on any machine, however busy it is. What `re` does is not counted."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(raw)
    finally:
        sys.settrace(before)
    return count


READERS = {
    "kernel": lambda raw: kernel_events([raw]),
    "training": lambda raw: training_lines([raw]),
    "explain": lambda raw: explained([("a.log", "mixed", raw)]),
    "cgroup": lambda raw: [place_of(line) for line in raw.decode("utf-8", "backslashreplace").split("\n")],
}
ODD = [b" ".join([word.replace(b"\n", b"")] * 3) for word in WORDS if len(word) < 200]


@pytest.mark.parametrize("target", READERS)
def test_twice_as_many_lines_take_about_twice_as_many_steps(target):
    chance = random.Random(target)
    seeds = list(seeds_of(target))
    for number in range(6):
        lines = chance.choice(seeds).split(b"\n")[:40] + chance.sample(ODD, 4)
        raw = b"".join(chance.choice(PREFIXES) + line + b"\n" for line in lines if line)
        once, twice, four = (steps(READERS[target], raw * times) for times in (4, 8, 16))

        assert twice <= 2.5 * once + 2000, number
        assert four <= 2.5 * twice + 2000, number


@pytest.mark.parametrize("target", READERS)
def test_no_line_takes_more_steps_than_it_is_long(target):
    for word in (*WORDS, b"a", b" ", b"(", b"/", b"1,"):
        line = word.replace(b"\n", b"") * (4096 // max(len(word), 1)) + b"\n"

        assert steps(READERS[target], line) < 3000 + 60 * len(line), word


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed (README of tests)")
@pytest.mark.parametrize("target", ["kernel", "explain"])
def test_the_fuzzer_runs(target, tmp_path):
    child = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, "--runs", "3", "--seconds", "60", "--seed", "7", "--few", "3",
         "--crashes", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip

    assert child.returncode == 0, child.stderr
    assert "BROKEN" not in child.stdout
    assert list(tmp_path.iterdir()) == []
