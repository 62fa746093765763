# SPDX-License-Identifier: Apache-2.0
"""One search for all readers: it never loses a line that one of them would take, wherever chunks end."""

import random
import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.explained import cases
from tests.kernel_logs import cases as kernel_logs
from tracer.logs import reports, sieve
from tracer.logs.kernel import feed
from tracer.logs.sieve import EARLY_OF_KERNEL, FRAGMENTS, OF_KERNEL, ROUGH, Sieve, tells
from tracer.logs.texts import BLOCK_BYTES, TextReader, numbered
from tracer.logs.training.blocks import _CODE, _OTHERS, _ROOT, _SIGNAL
from tracer.logs.training.reader import RULES

DULL = [b"step 41 loss 0.3112 lr 0.0003", b"", b"eth0: link is up", b"\xff\0\xfe", b"    at 0x7f", b"epoch 3", b"\r"]
ALL_RULES = [*RULES, *reports._RULES]


@pytest.mark.parametrize("number", range(len(ALL_RULES)))
@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_a_rule_can_take_has_a_fragment(number, data):
    """A rule takes a line that has its needle and what its pattern finds: one of the two has a fragment."""
    rule = ALL_RULES[number]
    text = data.draw(st.from_regex(re.compile(rule.pattern.pattern)).filter(rule.pattern.search))
    found = rule.pattern.search(text)[0].replace("\n", " ")

    assert tells(found.encode("utf-8", "surrogatepass")) or tells(rule.needle.encode()), found


@pytest.mark.parametrize("pattern", [_CODE, _OTHERS, _SIGNAL], ids=["code", "others", "signal"])
@settings(max_examples=15)
@given(data=st.data())
def test_whatever_the_report_of_torch_elastic_says_has_a_fragment(pattern, data):
    text = data.draw(st.from_regex(pattern))

    assert tells(text.encode("utf-8", "surrogatepass"))


def test_what_begins_a_block_of_lines_has_a_fragment():
    for text in (_ROOT, "Traceback (most recent call last):", "  rank      : 3 (local_rank: 1)"):
        assert tells(text.encode())


@pytest.mark.parametrize("needle", [*feed.NEEDLES, *feed.EARLY_NEEDLES])
def test_what_the_kernels_reader_looks_for_has_a_fragment_that_is_its(needle):
    sifted = Sieve().sift(b"x\n" * 30 + needle + b"\n")

    assert sifted.of_kernel
    assert sieve._searched(b"x\n" + needle.translate(sieve._LOWER, sieve._NO_LETTERS) + b"\n", 6).of_kernel


def test_what_is_looked_for_in_the_beginning_alone_is_not_looked_for_behind_it():
    one = Sieve()
    line = b"memory usage\n"

    assert one.sift(line).of_kernel
    one.sift(b"x" * feed.EARLY_BYTES + b"\n")
    assert not one.sift(line).of_kernel
    assert one.sift(b"oom-killer\n").of_kernel


def test_each_fragment_has_one_of_those_that_are_looked_for_first():
    for fragment in (*FRAGMENTS, *OF_KERNEL, *EARLY_OF_KERNEL):
        assert any(rough in fragment for rough in ROUGH), fragment


lines = st.lists(
    st.sampled_from(DULL)
    | st.sampled_from([b"x" + f + b"y" for f in (b"KILL", b"oo-m", b"Memor", b"NCCL err", b"N7C CL comm", b"BLOOM")])
    | st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")),
    max_size=80,
)


@settings(max_examples=60)
@given(lines, st.integers(1, 40), st.booleans())
def test_the_lines_that_tell_are_those_with_a_fragment_whatever_was_seen_before(given_lines, at_once, plain):
    found: list[int] = []
    one = Sieve()
    for at in range(0, len(given_lines), at_once):
        part = given_lines[at : at + at_once]
        if plain:
            one._plain = 1
        sifted = one.sift(b"".join(line + b"\n" for line in part))
        assert sifted.lines == len(part)
        found += [at + place for place in sifted.telling]

    assert found == [place for place, line in enumerate(given_lines) if tells(line)]


def test_what_is_known_has_a_bound(monkeypatch):
    monkeypatch.setattr(sieve, "_MOST_KNOWN", 50)
    one = Sieve()
    words = ["".join(random.Random(n).choices("abdfghjpqw", k=8)) for n in range(400)]
    for at in range(0, 400, 10):
        one.sift("".join(f"{word}\n{word}\n{word}\n" for word in words[at : at + 10]).encode() + b"z" * 5000 + b"\n")

    assert 0 < len(one._dull) <= 61
    assert not one._others
    assert max(map(len, one._dull)) <= 400


SOME = [raw for case in cases() for _, _, raw in case.texts()] + [log.raw for log in kernel_logs()]


def passages_of(raw, cuts):
    reader = TextReader(0, "x", "mixed")
    found = []
    last = 0
    for cut in (*sorted(cuts), len(raw)):
        found += reader.feed(raw[last:cut])
        last = cut
    return numbered(found + reader.end()), reader.text


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(SOME) | st.integers(1, 400), min_size=1, max_size=6), st.data())
def test_wherever_chunks_end_the_same_is_found(parts, data):
    raw = b"".join(part if isinstance(part, bytes) else b"plain line of %d\n" % part * part for part in parts)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12))

    assert passages_of(raw, cuts) == passages_of(raw, [])


@pytest.mark.parametrize("size", [5000, 20_000, BLOCK_BYTES + 5])
@pytest.mark.parametrize("where", [0, 3000, 4090, 4096, 16_380, 19_000])
def test_of_a_long_line_the_same_part_counts_wherever_chunks_end(size, where):
    line = b"y" * where + b" DataLoader worker (pid 42) is killed by signal: Killed. "
    raw = b"a\n" * 50 + line + b"z" * (size - where) + b"\nKilled\n" + b"b\n" * 50
    whole = passages_of(raw, [])

    for cut in (100, 101, where + 100, where + 120, where + 4000, len(raw) - 100):
        assert passages_of(raw, [cut]) == whole


def test_lines_of_a_size_and_letters_that_never_repeat_are_searched_all_at_once():
    one = Sieve()
    words = ["".join(random.Random(n).choices("abdfghjpqw", k=12)) for n in range(2000)]
    raw = "\n".join(words).encode() + b"\n"

    assert one.sift(raw).telling == []
    assert one._plain
    assert one.sift(b"x\nKilled\n\nclosing signal and memory\n").telling == [1, 3]
