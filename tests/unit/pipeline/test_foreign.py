# SPDX-License-Identifier: Apache-2.0
"""What is recorded of signals that are none of the job's."""

import os

import pytest

from tests.unit.pipeline.bench import Bench
from tracer.events import SignalSent
from tracer.pipeline.foreign import MAX_FOREIGN_SIGNALS


@pytest.fixture
def bench():
    return Bench()


def foreign_signal(**fields):
    values = dict.fromkeys(SignalSent.__struct_fields__, 0) | {"source": "bpf", "comm": "", "sender_comm": ""}
    return SignalSent(**(values | {"sender_parent_comm": "", "signal": 15, "info": 3, "tgid": 5} | fields))


@pytest.mark.parametrize(
    ("fields", "recorded"),
    [({}, MAX_FOREIGN_SIGNALS), ({"in_tree": 1}, 300), ({"info": 1, "signal": 9}, 300), ({"tgid": os.getpid()}, 300)],
    ids=["others", "the job's", "the kernel's", "the tracer's"],
)
def test_a_flood_of_other_processes_signals_does_not_fill_the_recording(bench, fields, recorded):
    for _ in range(300):
        bench.watch.take(foreign_signal(**fields))
    bench.watch.finish()

    assert len(bench.book.of(SignalSent)) == recorded
    assert [e for e in bench.book.events if isinstance(e, str)] == (
        [] if recorded == 300 else ["200 signals between processes outside the job were not recorded"]
    )
