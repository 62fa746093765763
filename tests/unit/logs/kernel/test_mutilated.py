# SPDX-License-Identifier: Apache-2.0
"""Logs of which lines were lost, cut, doubled or shuffled: less is read, and nothing that did not happen."""

from hypothesis import given, settings, strategies as st

from tests.kernel_logs import cases, read
from tracer.events import LoggedChoice, LoggedDecision, LoggedInvocation, LoggedKill, LoggedOwner, LoggedUsage

ALL = [
    case
    for case in cases()
    if not case.name.startswith("odd-") and "wrapped" not in case.format and "UTF-16" not in case.format
]


def facts(events):
    """Each thing that was said of a kill: kind of event, field and value."""
    kinds = (LoggedInvocation, LoggedUsage, LoggedOwner, LoggedChoice, LoggedDecision, LoggedKill)
    left_out = {
        "ts_ns",
        "seq",
        "log_usec",
        "log_seq",
        "text",
        "log_line",
        "log_column",
        "said_by",
        "host",
        "wall",
        "source",
    }
    return {
        (type(event).__name__, getattr(event, "counter", None), name, getattr(event, name))
        for event in events
        if isinstance(event, kinds)
        for name in event.__struct_fields__
        if name not in left_out and getattr(event, name) not in (None, False)
    }


AT_THE_START = {("LoggedInvocation", "comm")}
"""What a text begins with may lack its beginning, and nobody can see it: `swap: usage` was `memory+swap: usage`."""
AT_THE_END = {
    ("LoggedUsage", "failcnt"),
    ("LoggedDecision", "uid"),
    ("LoggedKill", "oom_score_adj"),
    ("LoggedOwner", "oom_memcg"),
}
"""A number that a line ends with may lack digits, a path may lack its last folders, and nobody can see it."""
TRUE = {case.name: facts(read(case.raw)) for case in ALL}

mutations = st.lists(
    st.tuples(
        st.sampled_from(["drop", "cut", "cut from the left", "double", "swap"]),
        st.integers(0, 1 << 16),
        st.integers(0, 1 << 16),
    ),
    min_size=1,
    max_size=6,
)


def mutilated(raw: bytes, steps) -> bytes:
    lines = raw.split(b"\n")
    for what, one, other in steps:
        at, to = one % len(lines), other % len(lines)
        if what == "drop" and len(lines) > 1:
            del lines[at]
        elif what == "cut":
            lines[at] = lines[at][: other % (len(lines[at]) + 1)]
        elif what == "cut from the left":
            lines[at] = lines[at][other % (len(lines[at]) + 1) :]
        elif what == "double":
            lines.insert(to, lines[at])
        elif what == "swap":
            lines[at], lines[to] = lines[to], lines[at]
    return b"\n".join(lines)


@given(st.sampled_from(ALL), mutations)
@settings(deadline=None, max_examples=400)
def test_what_is_lost_makes_nothing_else_of_the_rest(case, steps):
    said = facts(read(mutilated(case.raw, steps))) - TRUE[case.name]
    if any(what == "cut from the left" for what, _, _ in steps):
        said = {each for each in said if each[:1] + each[2:3] not in AT_THE_START and each[0] != "LoggedUsage"}

    assert {each for each in said if each[:1] + each[2:3] not in AT_THE_END} == set()
