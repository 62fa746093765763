# SPDX-License-Identifier: Apache-2.0
"""What stands before a text in logs is taken off and understood; what is not there stays unknown."""

import datetime
import time

import pytest
from hypothesis import given, strategies as st

from tracer.logs.prefixes import LINE_CHARS, split
from tracer.logs.prefixes.walltime import _LANGUAGES, MONTHS, WallTime, from_epoch_usec, month_of

TEXT = "Out of memory: Killed process 7 (x)"
UNKNOWN = (None, None, None, None)
LINES = [
    ("", UNKNOWN, 0),
    ("[ 1234.567890] ", (None, 1234567890, None, None), 1),
    ("[    0.000001][ T4711] ", (None, 1, None, None), 1),
    ("[  535] ", (None, 535000000, None, None), 1),
    ("1234.567890] ", (None, 1234567890, None, None), 1),
    ("kern  :warn  : [    1.000002] ", (None, 1000002, "kernel", None), 2),
    ("user  :notice: [    1.000002] ", (None, 1000002, "user", None), 2),
    ("<3>[    1.000002] ", (None, 1000002, "kernel", None), 2),
    ("<14>[    1.000002] ", (None, 1000002, "user", None), 2),
    ("[Tue Sep  3 05:57:48 2024] ", ("2024-09-03T05:57:48", None, None, None), 1),
    ("[二 9月 3 05:57:48 2024] ", ("2024-09-03T05:57:48", None, None, None), 1),
    ("[mar. sept.  3 05:57:48 2024] ", ("2024-09-03T05:57:48", None, None, None), 1),
    ("[вт сен  3 05:57:48 2024] ", ("2024-09-03T05:57:48", None, None, None), 1),
    ("[xx yyy  3 05:57:48 2024] ", UNKNOWN, 1),
    ("2024-04-29T14:55:41,678628+02:00 ", ("2024-04-29T14:55:41.678628+02:00", None, None, None), 1),
    ("2024-04-29T14:55:41.678628+02:00 n1 kernel: ", ("2024-04-29T14:55:41.678628+02:00", None, "name", "n1"), 1),
    ("2024-04-29T14:55:41-0530 n1 kernel: ", ("2024-04-29T14:55:41-05:30", None, "name", "n1"), 1),
    ("2024-04-29 14:55:41 ", ("2024-04-29T14:55:41", None, None, None), 1),
    ("Apr 28 10:11:12 n1 kernel: [   12.345678] ", ("--04-28T10:11:12", 12345678, "name", "n1"), 2),
    ("Apr  8 10:11:12 n1 kernel: ", ("--04-08T10:11:12", None, "name", "n1"), 1),
    ("Apr  8 10:11:12.5 n1 kernel: ", ("--04-08T10:11:12.5", None, "name", "n1"), 1),
    ("Apr  8 2024 10:11:12 n1 kernel: ", ("2024-04-08T10:11:12", None, "name", "n1"), 1),
    ("Apr  8 10:11:12 kernel: ", ("--04-08T10:11:12", None, "name", None), 1),
    ("Apr  8 10:11:12 [   12.345678] ", ("--04-08T10:11:12", 12345678, None, None), 2),
    ("Apr  8 10:11:12 n1 [   12.345678] ", ("--04-08T10:11:12", 12345678, None, "n1"), 2),
    ("Apr  8 10:11:12 n1 logger[55]: ", ("--04-08T10:11:12", None, "user", "n1"), 1),
    ("Apr  8 10:11:12 n1 kernel[55]: ", ("--04-08T10:11:12", None, "user", "n1"), 1),
    ("апр 28 10:11:12 n1 kernel: ", ("--04-28T10:11:12", None, "name", "n1"), 1),
    ("28. Okt 10:11:12 n1 kernel: ", ("--10-28T10:11:12", None, "name", "n1"), 1),
    ("<4>Apr 28 10:11:12 n1 kernel: ", ("--04-28T10:11:12", None, "name", "n1"), 2),
    ("<4>1 2024-04-29T14:55:41Z n1 kernel - - - ", ("2024-04-29T14:55:41+00:00", None, "name", "n1"), 1),
    ("[   12.345678] n1 kernel: ", (None, 12345678, "name", "n1"), 2),
    ("Mon 2024-04-29 14:55:41 CEST n1 kernel: ", ("2024-04-29T14:55:41", None, "name", "n1"), 1),
    ("Mon 2024-04-29 14:55:41 -03 n1 kernel: ", ("2024-04-29T14:55:41-03:00", None, "name", "n1"), 1),
    ("1714395341.678628 n1 kernel: ", ("2024-04-29T12:55:41.678628+00:00", None, "name", "n1"), 1),
    ("[   12.345678 <    0.000011 >] n1 kernel: ", (None, 12345678, "name", "n1"), 2),
    ("[  +0.000011] ", UNKNOWN, 1),
    ("[Apr28 10:11] ", UNKNOWN, 1),
    ("6,123,456789,-;", (None, 456789, "kernel", None), 1),
    ("12,123,456789,-,caller=T9;", (None, 456789, "user", None), 1),
    ("kern: warning: [2024-04-29T14:55:41.6Z]: ", ("2024-04-29T14:55:41.6+00:00", None, "kernel", None), 1),
    ("user: warning: [2024-04-29T14:55:41Z]: ", ("2024-04-29T14:55:41+00:00", None, "user", None), 1),
    ("> > [   12.345678] ", (None, 12345678, None, None), 1),
    ("\t    [   12.345678] ", (None, 12345678, None, None), 1),
    ("\x1b[32m[   12.345678] \x1b[0m", (None, 12345678, None, None), 1),
    ("web-1  | [   12.345678] ", (None, 12345678, None, None), 1),
    ("2024-04-29T14:55:41.678Z stdout F [   12.345678] ", ("2024-04-29T14:55:41.678+00:00", 12345678, None, None), 1),
]


def known(line):
    return None if line.wall is None else str(line.wall), line.usec, line.said_by, line.host


@pytest.mark.parametrize("prefix, expected, depth", LINES, ids=[repr(prefix) for prefix, _, _ in LINES])
def test_a_prefix_is_taken_off_and_understood(prefix, expected, depth):
    line = split(prefix + TEXT, 3)

    assert (line.text, line.number, line.depth) == (TEXT, 3, depth)
    assert known(line) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[ 4711]     0  4711    16340    13470   159744        0          1000 large",
        "[   4711]  1000  4711    16340    13470",
        "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:5kB",
        "Out of memory: Killed process 1 (a b: c)",
        "oom_reaper: reaped process 4711 (x), now anon-rss:0kB",
        "memory: usage 65536kB, limit 65536kB, failcnt 12",
        "[<ffffffff8164fd16>] dump_stack+0x19/0x1b",
        "Task in /a killed as a result of limit of /b",
    ],
)
@pytest.mark.parametrize(
    "prefix", ["", "[   12.345678] ", "2024-04-29T14:55:41,678628+02:00 ", "Apr  8 10:11:12 n kernel: "]
)
def test_the_kernels_own_words_are_no_prefix(prefix, text):
    assert split(prefix + text).text == text


def test_a_second_stamp_belongs_to_the_text():
    assert split("[   12.345678] [   99.000000] x").text == "[   99.000000] x"


@pytest.mark.parametrize(
    "fields, said_by",
    [
        ('"_TRANSPORT":"kernel"', "kernel"),
        ('"_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel"', "user"),
        ('"SYSLOG_IDENTIFIER":"kernel"', "name"),
        ('"SYSLOG_IDENTIFIER":"python3"', "user"),
        ('"PRIORITY":"3"', None),
    ],
)
def test_the_journal_says_who_wrote_a_record(fields, said_by):
    line = split('{"MESSAGE":"Out of memory","__REALTIME_TIMESTAMP":"1714395341678628",%s}' % fields)  # noqa: UP031

    assert (line.text, line.said_by, str(line.wall)) == ("Out of memory", said_by, "2024-04-29T12:55:41.678628+00:00")


@pytest.mark.parametrize(
    "line",
    [
        '{"MESSAGE":[79,300]}', '{"MESSAGE":null}', '{"MESSAGE":"x"', "{}", "[]", '{"log":1}', '{"a":{"b":[[[[[]]]]]}}',
        '{"MESSAGE":"\\ud800"}', '{"MESSAGE":[[79,117]]}', "{" * 5000 + "}" * 5000,
    ],
)  # fmt: skip
def test_an_object_that_is_none_of_a_log_is_no_error(line):
    split(line)


def test_no_two_languages_mean_different_months_by_one_name():
    for names in _LANGUAGES:
        for number, name in enumerate(names.split(), 1):
            assert MONTHS[name] == number
            assert month_of(name.upper() + ".") == number
    assert month_of("xyz") is None


UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, 4_000_000_000), st.integers(0, 999_999), st.integers(-720, 840))
def test_times_are_those_of_the_calendar(seconds, usec, offset):
    zone = datetime.timezone(datetime.timedelta(minutes=offset))
    moment = (EPOCH + datetime.timedelta(seconds=seconds, microseconds=usec)).astimezone(zone)
    day = (moment.month, moment.day, moment.hour, moment.minute, moment.second)
    wall = WallTime(*day, moment.microsecond * 1000, moment.year, offset)
    whole = seconds * 1_000_000 + usec

    assert wall.utc_ns() == whole * 1000
    assert (from_epoch_usec(whole) or wall).utc_ns() == whole * 1000
    assert datetime.datetime.fromisoformat(str(wall._replace(nanosecond=0))) == moment.replace(microsecond=0)


def test_what_is_assumed_of_a_time_is_the_callers():
    wall = WallTime(4, 28, 10, 0, 0)

    assert wall.utc_ns() is None
    assert wall.utc_ns(year=2024, offset_minutes=60) == WallTime(4, 28, 9, 0, 0, year=2024, offset_minutes=0).utc_ns()


PIECES = [
    "[ 1.000000] ", "[Tue Sep  3 05:57:48 2024] ", "Apr 28 10:00:00 ", "host ", "kernel: ", "> ", " | ", "{", "}", '"',
    '{"MESSAGE":"', "<4>", "6,1,1,-;", "[", "]", " ", ":", "\x1b[", "2024-04-29T14:55:41.6+02:00 ", "stdout F ",
    "&lt;", "\\x0a",
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=20).map("".join))
def test_any_line_is_taken_apart_without_an_error(text):
    line = split(text, 1)

    assert len(line.text) <= LINE_CHARS
    assert 1 <= line.column <= len(text) + 1


@pytest.mark.parametrize("piece", [*PIECES, "a", "9", "[1", "a ", "é", '{"a":', "> >", "\x1b[0m"])
def test_a_long_line_takes_no_time(piece):
    text = piece * ((1 << 20) // len(piece))
    begun = time.process_time()
    split(text)

    assert time.process_time() - begun < 1
