# SPDX-License-Identifier: Apache-2.0
"""When NVML is asked, and what of its answers is recorded."""

import os

import msgspec
import pytest

from tests.unit.pipeline.bench import Bench, Book
from tests.unit.pipeline.stand_ins import START_NS, Feed, sources
from tests.unit.pipeline.test_members import exited
from tests.unit.verdict.scenes import Scene
from tracer.events import CallWhy, CudaCall, GpuDevice, GpuPeak, GpuSample, GpuStatus, NumaNode, NumaNodes
from tracer.pipeline.gpu import (
    DENSE_NS,
    FAILURE_GAP_NS,
    LONGEST_PAUSE_NS,
    RETRY_NS,
    SAMPLE_NS,
    STAY_DENSE_NS,
    GpuWatch,
)
from tracer.pipeline.journal import Journal
from tracer.sources.gpu import Answer, GpuUnavailable
from tracer.units import NS_PER_MS, NS_PER_S

THERE = GpuStatus(ts_ns=1, source="nvml", available=True, devices=(GpuDevice(uuid="GPU-a", index=0),))
GONE = GpuStatus(ts_ns=2, source="nvml", available=False, why_not="the GPU is lost")
NOW_NS = 1000 * NS_PER_S


class Gpu:
    """Remembers what it was asked, and answers what a test says."""

    def __init__(self):
        self.asked, self.answers, self.owed = [], [], 1
        self.overdue = self.ended = False
        self.is_late = None
        self.fault = None

    @property
    def busy(self):
        return self.owed > 0 and not self.ended

    def fileno(self):
        return 0

    def sample(self):
        self.asked.append("sample")
        self.owed += 1

    def peaks(self, pids):
        self.asked.append(("peaks", *pids))
        self.owed += 1

    def late(self, now_ns):
        late, self.is_late = self.is_late, None
        return late

    def read(self):
        if self.fault is not None:
            raise self.fault
        taken, self.answers = self.answers, []
        self.owed = max(0, self.owed - len(taken))
        return taken


def sample(used=10, total=100, ts_ns=5, **more):
    return GpuSample(ts_ns=ts_ns, source="nvml", uuid="GPU-a", index=0, total_bytes=total, used_bytes=used, **more)


class Watched:
    """A watch over one GPU that has answered for the first time."""

    def __init__(self, status=THERE):
        self.gpu, self.book = Gpu(), Book()
        self.watch = GpuWatch(sources(gpu=self.gpu), self.book)
        self.answer(status=status)

    def answer(self, *samples, took_ns=1, **fields):
        self.gpu.answers.append(Answer(samples=samples, took_ns=took_ns if samples else 0, **fields))
        return self.watch.read()

    def asked_after(self, now_ns):
        """How long after that it is asked again."""
        return self.watch.due_ns() - now_ns


def test_it_is_asked_once_it_has_answered_and_then_every_second():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    assert watched.gpu.asked == ["sample"]
    watched.watch.tick(NOW_NS + 10 * NS_PER_S)
    assert watched.gpu.asked == ["sample"]  # not twice at a time
    watched.answer(sample())

    assert watched.asked_after(NOW_NS) == SAMPLE_NS
    watched.watch.tick(NOW_NS + SAMPLE_NS - 1)
    watched.watch.tick(NOW_NS + SAMPLE_NS)
    assert watched.gpu.asked == ["sample", "sample"]


class Tape:
    """A recording that is a list."""

    trouble = None

    def __init__(self):
        self.events = []

    def append(self, event):
        self.events.append(event)


def test_what_did_not_change_is_not_recorded_again():
    watched, tape = Watched(), Tape()
    watched.watch = GpuWatch(sources(gpu=watched.gpu), Journal(tape, None))
    watched.answer(status=THERE)
    watched.answer(status=msgspec.structs.replace(THERE, ts_ns=4))
    for ts_ns, used in ((5, 10), (6, 10), (7, 11)):
        watched.answer(sample(used, ts_ns=ts_ns))

    assert [event.ts_ns for event in tape.events] == [1, 5, 7]


@pytest.mark.parametrize("reserved, dense", [(0, False), (40, True)])
def test_near_its_limit_a_device_is_looked_at_more_often(reserved, dense):
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.answer(sample(50, reserved_bytes=reserved))

    assert watched.asked_after(NOW_NS) == (DENSE_NS if dense else SAMPLE_NS)


@pytest.mark.parametrize(
    "took_ns, pause_ns", [(NS_PER_MS, SAMPLE_NS), (100 * NS_PER_MS, 5 * NS_PER_S), (3 * NS_PER_S, LONGEST_PAUSE_NS)]
)
def test_a_driver_that_answers_slowly_is_left_alone_for_longer(took_ns, pause_ns):
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.answer(sample(), took_ns=took_ns)

    assert watched.asked_after(NOW_NS) == pause_ns


def test_a_failed_allocation_has_it_asked_at_once_and_then_densely():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.answer(sample())
    watched.watch.at_failure(NOW_NS + SAMPLE_NS // 2)
    watched.answer(sample())

    assert watched.gpu.asked == ["sample", "sample"]
    assert watched.asked_after(NOW_NS + SAMPLE_NS // 2) == DENSE_NS
    later_ns = NOW_NS + SAMPLE_NS // 2 + STAY_DENSE_NS
    watched.watch.tick(later_ns)
    watched.answer(sample())
    assert watched.asked_after(later_ns) == SAMPLE_NS


def test_a_failure_while_an_answer_is_on_its_way_has_it_asked_again():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.watch.at_failure(NOW_NS + 1)
    assert watched.gpu.asked == ["sample"]
    watched.answer(sample())

    assert watched.asked_after(NOW_NS) == FAILURE_GAP_NS


def test_a_storm_of_failures_is_a_handful_of_questions():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    for at_ns in range(NOW_NS, NOW_NS + NS_PER_S, NS_PER_MS):
        watched.answer(sample())
        watched.watch.at_failure(at_ns)
        watched.watch.tick(at_ns)

    assert 10 <= len(watched.gpu.asked) <= NS_PER_S // FAILURE_GAP_NS + 1


def test_a_driver_that_is_gone_is_asked_again_rarely():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.answer(status=GONE, took_ns=0)
    watched.gpu.answers.append(Answer(took_ns=5))
    watched.watch.read()

    assert watched.asked_after(NOW_NS) == RETRY_NS
    assert watched.book.events == [THERE, GONE]


def test_that_an_answer_is_overdue_is_recorded():
    watched = Watched()
    watched.watch.tick(NOW_NS)
    watched.gpu.is_late = GONE
    watched.watch.tick(NOW_NS + 5)
    watched.watch.tick(NOW_NS + 6)

    assert watched.book.events == [THERE, GONE]
    watched.gpu.overdue = True
    watched.watch.hurry()
    assert watched.gpu.asked == ["sample"]
    assert watched.watch.idle()


def test_at_the_end_it_is_asked_once_more_and_for_what_accounting_kept():
    watched = Watched()
    watched.watch.at_exit(exited(11, START_NS))
    watched.watch.at_exit(msgspec.structs.replace(exited(12, START_NS), in_tree=0))
    watched.watch.hurry()

    assert watched.gpu.asked == ["sample", ("peaks", 11)]
    assert not watched.watch.idle()
    peak = GpuPeak(ts_ns=9, source="nvml", uuid="GPU-a", index=0, pid=11, peak_bytes=5)
    watched.answer(sample())
    watched.answer(peaks=(peak,))
    assert watched.watch.idle()
    watched.watch.finish(NOW_NS)
    assert watched.book.events[-1] == peak


def test_thousands_of_processes_fit_into_one_request():
    watched = Watched()
    for pid in range(4_190_000, 4_194_304):
        watched.watch.at_exit(exited(pid, START_NS))
    watched.watch.hurry()

    assert len(b" ".join(b"%d" % pid for pid in watched.gpu.asked[-1][1:])) < 4096 - len("peaks \n")
    assert watched.gpu.asked[-1][-1] == 4_194_303


def test_one_that_never_answered_is_said_to_be_unknown():
    gpu, book = Gpu(), Book()
    watch = GpuWatch(sources(gpu=gpu), book)
    watch.tick(NOW_NS)
    watch.hurry()
    watch.finish(NOW_NS)

    [status] = book.events
    assert (status.available, status.why_not, gpu.asked) == (False, "NVML had not answered yet", ["sample"])


def test_without_a_driver_that_is_said_and_nothing_is_asked():
    book = Book()
    watch = GpuWatch(sources(no_gpu=GpuUnavailable("no NVIDIA driver")), book)
    watch.arm(7)
    watch.tick(NOW_NS)
    watch.at_failure(NOW_NS)
    watch.hurry()
    watch.finish(NOW_NS)

    assert watch.readers() == []
    assert book.events == [GpuStatus(ts_ns=7, source="nvml", available=False, why_not="no NVIDIA driver")]


def test_a_watch_without_any_word_of_gpus_records_nothing():
    book = Book()
    watch = GpuWatch(sources(), book)
    watch.arm(7)
    watch.finish(NOW_NS)

    assert book.events == []
    assert watch.idle()


def failed(why=CallWhy.FAILED):
    known = dict.fromkeys(CudaCall.__struct_fields__, 1) | {"comm": "python", "source": "bpf", "why": why}
    return CudaCall(**known)


@pytest.mark.parametrize("event, asked", [(failed(), 1), (failed(CallWhy.PINNED), 0), (Scene().mark(99, 99), 1)])
def test_failed_calls_and_marks_have_it_asked_at_once(event, asked):
    kernel, gpu = Feed(), Gpu()
    bench = Bench(kernel=kernel, gpu=gpu)
    gpu.answers = [Answer(status=THERE)]
    bench.watch.read_all()
    kernel.say(event)
    bench.watch.read_all()

    assert gpu.asked == ["sample"] * asked
    kernel.close()


def test_where_the_machines_memory_lies_is_recorded_once():
    nodes = NumaNodes(ts_ns=1, source="pressure", nodes=(NumaNode(node=0, mem_total_bytes=5, cpus=2),))
    bench = Bench(nodes=nodes)
    bench.watch.arm()

    assert [event for event in bench.book.events if isinstance(event, NumaNodes)] == [nodes]


def test_what_fails_on_our_side_is_left_alone_and_waited_for_by_nobody():
    tape, gpu = Tape(), Gpu()
    watch = GpuWatch(sources(gpu=gpu), Journal(tape, None))
    gpu.fault = OSError(5, os.strerror(5))
    for _ in range(5):
        watch.read()
        watch.tick(NOW_NS)
    watch.hurry()

    assert [note.text for note in tape.events] == ["asking NVML failed: OSError: [Errno 5] Input/output error"]
    assert watch.idle()
    assert gpu.asked == []
