# SPDX-License-Identifier: Apache-2.0
"""What a journal does with events and with failures."""

import pytest

from tracer.events import Note, ProcessId, VmstatSample
from tracer.pipeline.clocks import header_now
from tracer.pipeline.helper import Helper
from tracer.pipeline.journal import FLUSH_NS, STRIKES, Journal
from tracer.recording import RecordingWriter, read_recording


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.oomtrace"


@pytest.fixture
def journal(path):
    disk = Helper("disk")
    with RecordingWriter.create(path, header_now(cgroup_version=2)) as writer:
        yield Journal(writer, disk)
    disk.close()


def recorded(path):
    return [event for event in read_recording(path) if not hasattr(event, "schema")]


def note(text="x", ts_ns=10):
    return Note(ts_ns=ts_ns, source="tracer", text=text)


def test_an_event_is_in_the_file_once_its_time_has_come(journal, path):
    journal.append(note())
    journal.flush_if_due(10 + FLUSH_NS - 1)
    assert recorded(path) == []

    journal.flush_if_due(10 + FLUSH_NS)

    assert len(recorded(path)) == 1
    assert journal.due_ns() is None


def test_the_time_runs_from_the_first_event_that_waits(journal):
    journal.append(note(ts_ns=10))
    journal.append(note(ts_ns=500))

    assert journal.due_ns() == 10 + FLUSH_NS


def test_a_sample_that_says_nothing_new_is_left_out(journal, path):
    samples = [
        VmstatSample(ts_ns=t, source="pressure", oom_kill=kills) for t, kills in ((1, 5), (2, 5), (3, 6), (4, 5))
    ]

    taken = [journal.append_changed(("vmstat",), sample) for sample in samples]
    journal.flush()

    assert taken == [True, False, True, True]
    assert [event.ts_ns for event in recorded(path)] == [1, 3, 4]


def test_what_is_compared_may_be_less_than_what_is_recorded(journal, path):
    for kills in (1, 2, 3):
        sample = VmstatSample(ts_ns=kills, source="pressure", oom_kill=kills)
        journal.append_changed(("vmstat",), sample, VmstatSample(ts_ns=0, oom_kill=kills // 2))
    journal.flush()

    assert [event.oom_kill for event in recorded(path)] == [1, 2]


@pytest.mark.parametrize("kind", ["process", "seen"])
def test_what_is_forgotten_of_a_process_may_be_said_again_and_others_stay(journal, kind):
    sample = VmstatSample(ts_ns=1, source="pressure", oom_kill=0)
    ended, other = ProcessId(7, 1), ProcessId(7, 2)
    for process in (ended, other):
        journal.append_changed((kind, *process), sample)
    journal.forget(ended)

    assert [journal.append_changed((kind, *process), sample) for process in (ended, other)] == [True, False]


def test_a_failure_is_noted_once_and_after_three_the_thing_is_left_alone(journal, path):
    tries = []

    def broken():
        tries.append(1)
        raise OSError(5, "input/output error")

    for _ in range(STRIKES + 2):
        assert journal.attempt("reading the moon", broken, otherwise=42) == 42
    journal.flush()

    assert len(tries) == STRIKES
    assert journal.gave_up("reading the moon")
    assert [event.text for event in recorded(path)] == [
        "reading the moon failed: OSError: [Errno 5] input/output error"
    ]


def test_a_failure_now_and_then_is_no_reason_to_give_up(journal):
    for _ in range(STRIKES):
        journal.attempt("x", lambda: 1 / 0, otherwise=None)
        journal.attempt("y", lambda: 1 / 0, otherwise=None)
        assert journal.attempt("y", lambda: 42, otherwise=None) == 42

    assert journal.gave_up("x")
    assert not journal.gave_up("y")


def test_a_note_stands_there_once(journal, path):
    journal.note("same")
    journal.note("same")
    journal.flush()

    assert [event.text for event in recorded(path)] == ["same"]


def test_a_recording_that_cannot_be_written_raises_nothing(journal):
    journal._writer.append = None  # any call of it is an error

    journal.append(note())
    journal.note("y")
    journal.secure()


def test_what_is_secured_is_in_the_file_at_once(journal, path):
    journal.append(note())
    journal.secure()

    assert len(recorded(path)) == 1
