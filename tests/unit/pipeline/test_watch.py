# SPDX-License-Identifier: Apache-2.0
"""What an event sets off."""

import msgspec
import pytest

from tests.unit.pipeline.bench import Bench
from tests.unit.pipeline.stand_ins import START_NS, Feed
from tests.unit.pipeline.test_members import exited, forked, started
from tests.unit.verdict.scenes import Scene


@pytest.mark.parametrize(("status", "flushes"), [(9, 1), (256, 1), (0, 0)])
def test_the_exit_of_a_process_that_failed_goes_to_the_file_at_once(monkeypatch, status, flushes):
    kernel = Feed()
    bench = Bench(kernel=kernel)
    done = []
    monkeypatch.setattr(bench.book, "flush", lambda: done.append(1), raising=False)
    kernel.say(msgspec.structs.replace(exited(11, START_NS), status=status))
    bench.watch.read_all()

    assert len(done) == flushes
    kernel.close()


@pytest.mark.parametrize(("marked", "ours"), [(11, True), (99, False)])
def test_a_victim_that_lived_and_died_within_one_batch_is_one_of_the_job(monkeypatch, marked, ours):
    kernel = Feed()
    bench = Bench(kernel=kernel)
    bench.watch.take(started())
    done = []
    monkeypatch.setattr(bench.watch.sampler, "at_mark", lambda _, **said: done.append(said))
    mark = Scene().mark(marked, marked, start_ns=START_NS)
    for event in (forked(11, START_NS), mark, exited(11, START_NS)):
        kernel.say(event)
    bench.watch.read_all()

    assert done == [{"ours": ours}]
    kernel.close()
