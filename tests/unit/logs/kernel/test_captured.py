# SPDX-License-Identifier: Apache-2.0
"""What a real 6.18 kernel wrote about real kills in memory cgroups of ours, hostile names included."""

from pathlib import Path

import pytest

from tracer.events import LoggedDecision, LoggedInvocation, LoggedKill, LoggedOther, LoggedUsage
from tracer.logs.kernel import parse_record
from tracer.logs.kernel.devkmsg import parse_kmsg

DATA = Path(__file__).parents[3] / "data" / "kernel"


def events_in(name: str) -> list:
    events = []
    for line in (DATA / name).read_bytes().splitlines():
        record = parse_kmsg(line)
        assert record is not None
        assert record.facility == 0
        event = parse_record(
            record.text, ts_ns=1, log_usec=record.usec, log_seq=record.seq, trusted=True, source="kmsg"
        )
        if event is not None:
            events.append(event)
    return events


def only(events: list, kind: type) -> list:
    return [event for event in events if type(event) is kind]


def test_a_whole_report_is_read():
    events = events_in("6.18-v1-nested.kmsg")
    (invocation,), (decision,), (kill,) = (
        only(events, kind) for kind in (LoggedInvocation, LoggedDecision, LoggedKill)
    )
    usage = {event.counter: event for event in only(events, LoggedUsage)}

    assert (invocation.comm, invocation.gfp_mask, invocation.order) == ("pt_data_worker", "0xcc0(GFP_KERNEL)", 0)
    assert decision.constraint == "CONSTRAINT_MEMCG"
    assert decision.oom_memcg is not None
    assert decision.oom_memcg.endswith("/kubepods.slice/pod1")
    assert decision.task_memcg == decision.oom_memcg + "/cri-containerd-0"
    assert (decision.comm, decision.tgid, decision.uid) == ("pt_data_worker", kill.pid, 0)
    assert (kill.memcg, kill.allocating_task, kill.uid, kill.oom_score_adj) == (True, False, 0, 0)
    assert kill.anon_rss_bytes is not None
    assert 24 << 20 <= kill.anon_rss_bytes < 64 << 20
    assert usage["memory"].usage_bytes == usage["memory"].limit_bytes == 24 << 20
    assert usage["memory+swap"].limit_bytes > 1 << 62
    assert [event.about for event in only(events, LoggedOther)] == ["call_trace"] * 3 + ["report"] * 2
    assert all(event.trusted and event.log_seq and event.log_usec for event in events)


COMMS = ["a) total-vm:1kB", ",task=y,pid=1", "new\nline", "\\xff\\xfe\\x41", "(sd-pam)", "a invoked oom-k"]
PATHS = [
    "plain", "c,task=z,pid=1,uid=0", "sp ace", "üé", "o,oom_memcg=/x,task_memcg=/y",
    "m,mems_allowed=0,global_oom,task_memcg=",
]  # fmt: skip


@pytest.mark.parametrize("kind", [LoggedInvocation, LoggedDecision, LoggedKill])
def test_names_that_look_like_the_log_itself_are_read_whole(kind):
    assert [event.comm for event in only(events_in("6.18-v1-hostile.kmsg"), kind)] == COMMS


def test_cgroups_that_are_named_like_keys_are_read_whole():
    decisions = only(events_in("6.18-v1-hostile.kmsg"), LoggedDecision)
    top = "/oomtrace-test-24048/"

    assert [event.oom_memcg for event in decisions] == [top + path for path in PATHS]
    assert [event.task_memcg for event in decisions] == [event.oom_memcg for event in decisions]
    assert [event.tgid for event in decisions] == [
        event.pid for event in only(events_in("6.18-v1-hostile.kmsg"), LoggedKill)
    ]


def test_kills_without_a_report_are_read_alone():
    events = events_in("6.18-v1-burst.kmsg")
    kills = only(events, LoggedKill)

    assert len(kills) > len(only(events, LoggedDecision)) > 0
    assert [kill.comm for kill in kills[-4:]] == [f"burst-{n}" for n in range(10, 14)]
