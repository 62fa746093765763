# SPDX-License-Identifier: Apache-2.0
"""How a log is damaged: by lines, as it happens to logs. All of it follows from a seed."""

import random
import re
from collections.abc import Callable, Sequence

Lines = list[bytes]
Change = Callable[[Lines, random.Random], Lines]

_NUMBER = re.compile(rb"[0-9]{1,19}")
_NUMBERS = (
    b"0", b"1", b"-1", b"9", b"137", b"255", b"4194304", b"4194305", b"2147483648", b"4294967295",
    b"9007199254740988", b"18446744073709551615", b"99999999999999999999", b"1e400", b"00", b"\xd9\xa3",
)  # fmt: skip
PREFIXES = (
    b"", b"[    1.000000] ", b"[1234567.123456] ", b"<4>[    1.000000] ", b"6,12,3456789,-;", b"4,13,3456790,c;",
    b"Apr 28 10:11:12 node7 kernel: ", b"2026-11-30T17:25:59,123456+02:00 ", b"[Mon Nov 30 17:25:59 2026] ",
    b"2026-11-30T17:25:59.123456+00:00 node7 kernel: ", b"> ", b"    ", b"kern  :err   : ", b"[rank3]: ",
    b"web_1  | ", b"2026-11-30T17:25:59.123456789Z stdout P ", b"2026-11-30T17:25:59.123456789Z stderr F ",
    b"[pod/a/b] ", b"<3>1 2026-11-30T17:25:59Z node7 kernel - - - ", b"    MESSAGE=",
    b"E1130 17:25:59.000000 1 x.py:1] ",
)  # fmt: skip
_PREFIX = re.compile(
    rb"^(?:\[[^\]\n]{1,40}\] ?|[A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} \S+ \S+: |\S{10,40} \S+ kernel: |[ >\t]+)"
)
WORDS = (
    b"oom-kill:constraint=CONSTRAINT_MEMCG,", b"Killed process 77 (x) total-vm:9kB, anon-rss:8kB", b"\n", b"\0", b"\r",
    b"\x1b[2J", b"\xff\xfe", b"\xe2\x80\xae", b"** 3 printk messages dropped ** ", b"Memory cgroup out of memory: ",
    b" invoked oom-killer: ", b"oom_reaper: reaped process 77 (x)", b"Traceback (most recent call last):", b"(pid: 77)",
    b"exitcode: -9", b"<br>", b"&#10;", b'{"MESSAGE":"', b'"}', b"%% kernel\n", b"%% training\n", b"Killed",
    b"DataLoader worker (pid 77) is killed by signal: Killed. ", b"x" * 4100, b",task=", b",uid=0", b"oom_memcg=/",
    b"HF_TOKEN=", b"https://u:p@h/", b"/kubepods.slice/", b"Epoch 3: ", b"CUDA out of memory. ",
)  # fmt: skip


def dropped(lines: Lines, chance: random.Random) -> Lines:
    return [line for line in lines if chance.random() > 0.2]


def cut(lines: Lines, chance: random.Random) -> Lines:
    return [line[: chance.randrange(len(line) + 1)] if chance.random() < 0.2 else line for line in lines]


def cut_from_the_left(lines: Lines, chance: random.Random) -> Lines:
    return [line[chance.randrange(len(line) + 1) :] if chance.random() < 0.1 else line for line in lines]


def shuffled(lines: Lines, chance: random.Random) -> Lines:
    return chance.sample(lines, len(lines))


def swapped(lines: Lines, chance: random.Random) -> Lines:
    """A few neighbours change places, as lines of several CPUs do."""
    mixed = list(lines)
    for at in range(len(mixed) - 1):
        if chance.random() < 0.15:
            mixed[at], mixed[at + 1] = mixed[at + 1], mixed[at]
    return mixed


def doubled(lines: Lines, chance: random.Random) -> Lines:
    return [line for line in lines for _ in range(1 + (chance.random() < 0.2))]


def truncated(lines: Lines, chance: random.Random) -> Lines:
    first = chance.randrange(len(lines) + 1)
    return lines[first : first + chance.randrange(len(lines) + 1)]


LOSSES: tuple[Change, ...] = (dropped, cut, shuffled, swapped, doubled, truncated)
"""What happens to a log without anyone's will: nothing of it adds a word."""


def renumbered(lines: Lines, chance: random.Random) -> Lines:
    """Numbers are others, as large or as odd as can be."""
    return [
        _NUMBER.sub(lambda found: chance.choice(_NUMBERS) if chance.random() < 0.3 else found[0], line)
        if chance.random() < 0.2
        else line
        for line in lines
    ]


def prefixed(lines: Lines, chance: random.Random) -> Lines:
    """Prefixes are those of other formats, of one for all lines or of any for some."""
    new = chance.choice(PREFIXES)
    often = chance.choice((0.1, 0.5, 1))
    return [
        (new if chance.random() < 0.8 else chance.choice(PREFIXES)) + _PREFIX.sub(b"", line)
        if chance.random() < often
        else line
        for line in lines
    ]


def spiked(lines: Lines, chance: random.Random) -> Lines:
    """Words that mean something stand where they do not belong."""
    found = []
    for line in lines:
        if chance.random() < 0.15:
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(WORDS) + line[at:]  # noqa: PLW2901 - the same line, spiked
        found.append(line)
    return found


def wrapped(lines: Lines, chance: random.Random) -> Lines:
    """Long lines are several, as a terminal or a mail program makes them."""
    width = chance.choice((20, 40, 72, 80))
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def repeated(lines: Lines, chance: random.Random) -> Lines:
    """One line is there very often."""
    if not lines:
        return lines
    at = chance.randrange(len(lines))
    return [*lines[:at], *[lines[at]] * chance.choice((10, 100)), *lines[at:]]


CHANGES: tuple[Change, ...] = (*LOSSES, cut_from_the_left, renumbered, prefixed, spiked, wrapped, repeated)


def changed(raw: bytes, seed: int, changes: Sequence[Change] = CHANGES) -> bytes:
    """One to three of the changes."""
    chance = random.Random(seed)
    lines = raw.split(b"\n")
    for _ in range(chance.randint(1, 3)):
        lines = chance.choice(changes)(lines, chance)
    return b"\n".join(lines)
