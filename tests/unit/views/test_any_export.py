# SPDX-License-Identifier: Apache-2.0
"""Whatever events a recording holds, possible or not, every view writes something and none fails."""

import csv
import io

from hypothesis import Phase, given, settings, strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from tests.recordings import everything
from tests.strategies import events, events_of, headers, raw_text
from tracer.events import (
    CgroupSample,
    Clock,
    CudaTotals,
    GpuSample,
    OomMark,
    PressureSample,
    ProcessExited,
    ProcessForked,
    ProcessSample,
    ReclaimSample,
    TrainingLine,
)
from tracer.verdict.dossier.kernel_report import kernel_report
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.story import Story
from tracer.verdict.tracks import Samples, lay
from tracer.views import markdown, perfetto, table

OF_SAMPLES = (
    ProcessSample, CgroupSample, PressureSample, ReclaimSample, GpuSample, CudaTotals, Clock, OomMark, ProcessForked,
    ProcessExited, TrainingLine,
)  # fmt: skip
any_events = st.lists(events(raw_text) | st.one_of(*(events_of(kind, raw_text) for kind in OF_SAMPLES)), max_size=6)

quick = settings(max_examples=50, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Making a failing recording smaller takes minutes."""


def every_view(found) -> None:
    case = Case(Story(found))
    report = judge_case(case)
    tracks, samples = lay(case, report), Samples(case.story)
    rows = [row for event in case.story.events for row in samples.rows(event)]
    trace, cells = io.BytesIO(), io.BytesIO()
    perfetto.write(tracks, rows, trace)
    table.write(rows, cells, utc=case.story.utc, incident_ns=tracks.at_ns)

    assert len(Trace.FromString(trace.getvalue()).packet) > 0
    lines = list(csv.reader(io.StringIO(cells.getvalue().decode(), newline="")))
    assert {len(line) for line in lines} == {len(table.COLUMNS)}
    assert len(lines) == 1 + len(rows)
    assert markdown.render(report, kernel_report(case.story, tracks.at_ns).lines).startswith("## ")


@quick
@given(headers, any_events)
def test_of_anything_at_all(header, found):
    every_view([header, *found])


@quick
@given(any_events)
def test_of_anything_among_a_kill(found):
    every_view([*everything(), *found])
