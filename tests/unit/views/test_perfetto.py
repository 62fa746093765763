# SPDX-License-Identifier: Apache-2.0
"""The trace for Perfetto, taken apart again by its own declarations."""

import io

import msgspec
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tests.recordings import everything, many_processes, several_kills, with_name
from tests.unit.verdict.scenes import LAUNCHER, RANK, T0, WORKERS
from tracer.events import Clock, Header
from tracer.units import MIB, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.story import Story
from tracer.verdict.tracks import Samples, lay
from tracer.views import perfetto

REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6


class Taken:
    """A trace, looked up as a test needs it."""

    def __init__(self, events):
        case = Case(Story(events))
        samples = Samples(case.story)
        rows = (row for event in case.story.events for row in samples.rows(event))
        out = io.BytesIO()
        perfetto.write(lay(case, judge_case(case)), rows, out)
        self.packets = Trace.FromString(out.getvalue()).packet
        self.tracks = {
            p.track_descriptor.uuid: p.track_descriptor for p in self.packets if p.HasField("track_descriptor")
        }
        self.events = [p for p in self.packets if p.HasField("track_event")]

    def path(self, uuid: int) -> str:
        track = self.tracks[uuid]
        name = track.process.process_name or track.name
        return f"{self.path(track.parent_uuid)}/{name}" if track.parent_uuid else name

    def named(self, category: str) -> list[tuple[str, str, int]]:
        """Where, what and when, of all slices and instants of one sort."""
        return [
            (self.path(p.track_event.track_uuid), p.track_event.name, p.timestamp)
            for p in self.events
            if category in p.track_event.categories
        ]

    def values(self, path: str) -> list[float]:
        found = [p.track_event for p in self.events if p.track_event.type == TrackEvent.TYPE_COUNTER]
        return [e.counter_value or e.double_counter_value for e in found if self.path(e.track_uuid) == path]


@pytest.fixture(scope="module")
def taken():
    return Taken(everything())


def test_each_process_has_its_own_track_with_pid_and_role(taken):
    people = {t.process.pid: (t.process.process_name, list(t.process.process_labels)) for t in taken.tracks.values()}

    assert people[LAUNCHER] == ("launcher", ["launcher"])
    assert people[RANK] == ("rank 0", ["rank"])
    assert people[WORKERS[2]] == ("rank 0 worker 2", ["dataloader_worker"])


def test_the_kill_stands_on_its_victims_track_at_the_kernels_time(taken):
    kills = taken.named("kill")

    assert kills == [("rank 0 worker 2", "OOM kill of DataLoader worker 2 of rank 0 (pid 41233)", kills[0][2])]
    assert kills[0][2] == taken.named("incident")[0][2]
    assert taken.named("incident")[0][:2] == (
        "OOM/verdict", "Killed by the kernel: host RAM ran out at a cgroup limit (proved)",
    )  # fmt: skip


def test_a_flow_leads_from_the_kill_to_each_end_that_came_of_it(taken):
    begun = {f: p.track_event.name for p in taken.events for f in p.track_event.flow_ids}
    ended = {f: taken.path(p.track_event.track_uuid) for p in taken.events for f in p.track_event.terminating_flow_ids}

    assert {name.partition(" (")[0] for name in begun.values()} == {"OOM kill of DataLoader worker 2 of rank 0"}
    assert sorted(ended.values()) == ["launcher", "rank 0"]
    assert begun.keys() == ended.keys()


def test_numbers_are_drawn_where_they_changed(taken):
    assert taken.values("rank 0 worker 2/memory anon") == [50 * MIB + 60 * MIB * step for step in range(6)] + [0]
    assert taken.values("rank 0/memory anon") == [50 * MIB, 0]
    assert taken.values("cgroups//oomtrace/run-7f3/limit") == [512 * MIB]
    assert taken.values("GPU 0 (GPU-1)/used")[-1] == 5 << 30


def test_reclaim_is_told_by_what_was_counted_in_between(taken):
    spans = taken.named("reclaim")

    assert len(spans) == 5
    assert spans[0][:2] == ("cgroups//oomtrace/run-7f3/reclaim", "3 runs, tasks stalled 1 us in all")


def test_lines_of_the_jobs_log_are_there(taken):
    assert [what for _, what, _ in taken.named("log")] == [f"epoch {step}" for step in range(6)]


def test_every_slice_that_begins_ends(taken):
    depth: dict[int, int] = {}
    for packet in taken.events:
        event = packet.track_event
        change = {TrackEvent.TYPE_SLICE_BEGIN: 1, TrackEvent.TYPE_SLICE_END: -1}.get(event.type, 0)
        depth[event.track_uuid] = depth.get(event.track_uuid, 0) + change
        assert depth[event.track_uuid] >= 0

    assert set(depth.values()) == {0}


def test_a_track_is_described_before_anything_stands_on_it(taken):
    known: set[int] = set()
    for packet in taken.packets:
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.parent_uuid in {0, *known}
            known.add(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in known


def snapshots(events) -> tuple[list[dict[int, int]], set[int]]:
    clocks = [p.clock_snapshot for p in Taken(events).packets if p.HasField("clock_snapshot")]
    return [{c.clock_id: c.timestamp for c in one.clocks} for one in clocks], {c.primary_trace_clock for c in clocks}


def with_clocks(*realtime_s: int):
    """The usual case, its clocks read again and again."""
    events = everything()
    header = events[0]
    assert isinstance(header, Header)
    read = [
        Clock(
            ts_ns=T0 + (number + 1) * NS_PER_S, boottime_ns=header.boottime_ns + (number + 1) * NS_PER_S,
            realtime_ns=header.realtime_ns + seconds * NS_PER_S, seq=len(events) + number,
        )
        for number, seconds in enumerate(realtime_s)
    ]  # fmt: skip
    return [*events, *read]


def test_times_are_monotonic_and_the_timeline_is_wall_time():
    read, primary = snapshots(with_clocks(1, 2))

    assert primary == {REALTIME}
    assert [one[REALTIME] - read[0][REALTIME] for one in read] == [0, NS_PER_S, 2 * NS_PER_S]
    assert [one[MONOTONIC] for one in read] == [T0, T0 + NS_PER_S, T0 + 2 * NS_PER_S]


def test_where_the_clock_was_set_back_the_timeline_is_the_time_since_boot():
    assert snapshots(with_clocks(1, -3600, -3599))[1] == {BOOTTIME}


def test_several_kills_each_stand_where_they_were():
    taken = Taken(several_kills())

    assert [where for where, _, _ in taken.named("kill")] == ["rank 0 worker 2", "rank 0 worker 1"]
    assert len(taken.named("incident")) == 2


def test_a_thousand_processes_are_a_thousand_tracks():
    assert sum(track.HasField("process") for track in Taken(many_processes(1000)).tracks.values()) == 1006


def test_a_kill_of_another_job_stands_apart():
    events = [
        msgspec.structs.replace(e, in_tree=0) if getattr(e, "tgid", None) == WORKERS[2] and hasattr(e, "in_tree") else e
        for e in several_kills()
        if getattr(e, "tgid", None) != WORKERS[2] or type(e).__name__ not in {"ProcessForked", "ProcessSeen"}
    ]

    assert ("OOM/not of the job", "OOM kill of pt_data_worker (pid 41233)") in [
        one[:2] for one in Taken(events).named("kill")
    ]


@pytest.mark.parametrize("name", ["\udce9\x00", "\x1b[31m", "\u202e", "<b>", "x" * 15])
def test_any_name_is_text_and_shows_nothing_but_itself(name):
    told = [p.track_event.name for p in Taken(with_name(name)).events]

    assert not any(char in text for text in told for char in "\x00\x1b\u202e")
