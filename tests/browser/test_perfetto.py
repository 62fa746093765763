# SPDX-License-Identifier: Apache-2.0
"""The trace in Perfetto's own trace_processor: SQL over it finds the kill and what it led to."""

import io

import msgspec
import pytest

from tests import chromium, perfetto_ui
from tests.recordings import everything
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of
from tracer.events import AnyEvent, ProcessForked
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.story import Story
from tracer.verdict.tracks import Samples, lay
from tracer.views import perfetto

ODD, SHOWN = "<b>'\u202e\udce9", "<b>'\\u202e\\udce9"


def trace(events) -> bytes:
    case = Case(Story(events))
    samples = Samples(case.story)
    out = io.BytesIO()
    rows = (row for event in case.story.events for row in samples.rows(event))
    perfetto.write(lay(case, judge_case(case)), rows, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def engine():
    program, page = chromium.chromium(), perfetto_ui.web_page()
    if program is None:
        pytest.skip("no Chromium is installed: scripts/setup --browser")
    if page is None:
        pytest.skip("Perfetto's page is not there: scripts/setup --browser")
    with perfetto_ui.shown(program, page, trace(everything())) as shown:
        yield shown


def test_nothing_of_the_trace_is_refused(engine):
    assert engine.sql("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []


def test_the_processes_are_there(engine):
    found = dict(engine.sql("select pid, name from process where pid > 0"))

    assert found == {
        LAUNCHER: "launcher", RANK: "rank 0", **{pid: f"rank 0 worker {n}" for n, pid in enumerate(WORKERS)},
    }  # fmt: skip


def test_the_kill_is_its_processs_and_has_the_wall_time_of_the_recording(engine):
    events = everything()
    [kill_ns] = [e.ts_ns for e in events if type(e).__name__ == "SignalSent"]
    [[pid, ts]] = engine.sql(
        "select pid, ts from slice join process_track t on slice.track_id = t.id join process using (upid) "
        "where category = 'kill'"
    )

    # As numbers of JavaScript: exact to 256 ns at this time of the era.
    assert pid == WORKERS[2]
    assert ts == pytest.approx(events[0].realtime_ns + kill_ns - events[0].ts_ns, abs=1000)


def test_facts_of_the_kill_can_be_asked_for(engine):
    [[size]] = engine.sql("select extract_arg(arg_set_id, 'debug.anon_rss_bytes') from slice where category = 'kill'")

    assert size == 402 * MIB


def test_memory_of_the_process_is_a_counter_of_it(engine):
    found = engine.sql(
        "select value from counter c join process_counter_track t on c.track_id = t.id join process using (upid) "
        f"where pid = {WORKERS[2]} and t.name = 'memory anon' order by ts"
    )

    assert [value for [value] in found] == [50 * MIB + 60 * MIB * step for step in range(6)] + [0]


def test_the_limit_is_a_counter(engine):
    found = engine.sql(
        "select value, unit from counter c join counter_track t on c.track_id = t.id where name = 'limit'"
    )

    assert found == [[512 * MIB, "bytes"]]


def test_flows_lead_from_the_kill_to_what_went_down_with_it(engine):
    found = engine.sql(
        "select o.category, p.pid from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id "
        "join process_track t on i.track_id = t.id join process p using (upid) order by p.pid"
    )

    assert found == [["kill", LAUNCHER], ["kill", RANK]]


def test_a_life_lasts_from_the_fork_to_the_end(engine):
    [[name, span]] = engine.sql(
        "select s.name, s.dur from slice s join process_track t on s.track_id = t.id join process p using (upid) "
        f"where category = 'process' and pid = {WORKERS[2]}"
    )

    assert name == "pt_data_worker (victim, culprit): signal 9 (SIGKILL)"
    assert 6 * NS_PER_S < span < 6 * NS_PER_S + 100 * NS_PER_MS


def given_again() -> list[AnyEvent]:
    """A worker ends, and another one gets its pid; both call themselves something odd."""
    scene = Scene()
    scene.job()
    scene.exit(WORKERS[0], 0, comm=ODD)
    scene.pass_time(10 * NS_PER_S)
    start_ns = start_of(WORKERS[0]) + 10 * NS_PER_S
    [first] = [e for e in scene.events if isinstance(e, ProcessForked) and e.tgid == WORKERS[0]]
    scene.add(msgspec.structs.replace(first, ts_ns=scene.now_ns, start_ns=start_ns, comm=ODD))
    scene.exit(WORKERS[0], 1 << 8, start_ns=start_ns, comm=ODD)
    return scene.finish()


def test_a_pid_that_was_given_again_is_another_process_and_odd_names_are_names(engine):
    with perfetto_ui.shown(chromium.chromium(), perfetto_ui.web_page(), trace(given_again())) as shown:
        ends = shown.sql(
            "select upid, s.name from slice s join process_track t on s.track_id = t.id join process p using (upid) "
            f"where category = 'process' and pid = {WORKERS[0]} order by ts"
        )

        assert len({upid for upid, _ in ends}) == 2
        assert [name for _, name in ends] == [f"{SHOWN}: exit 0", f"{SHOWN}: exit 1"]
