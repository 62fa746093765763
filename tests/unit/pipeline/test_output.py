# SPDX-License-Identifier: Apache-2.0
"""What the copier tells becomes events and notes; no more is kept, and no more is looked through than is cheap."""

import errno
import os

import pytest

from tracer.events import Note, TrainingLine
from tracer.job.copier import DATA, END, RESIZED
from tracer.job.tee import Read
from tracer.pipeline import output as output_module
from tracer.pipeline.helper import Helper
from tracer.pipeline.journal import Journal
from tracer.pipeline.output import Output

WORKER = b"RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed.\n"


class Channel:
    def __init__(self, stream="stdout"):
        self.stream, self.waiting, self.asked = stream, [], 0
        self.dry = self.ended = False
        self.answers = True
        self._fd, self._other = os.pipe()

    def fileno(self):
        return self._fd

    def say(self, data=b"", what=DATA, at_ns=7, **more):
        self.waiting.append(Read(at_ns, data, what, **({"missing": 0, "unseen": 0, "refused": 0, "error": 0} | more)))

    def read(self, most=64):
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        yield from taken
        if self.asked and self.answers and not self.waiting:
            self.dry = True

    def ask(self):
        self.asked += 1

    def close(self):
        os.close(self._fd)
        os.close(self._other)


class Tee:
    def __init__(self, *channels):
        self.channels, self.gone = channels, False

    def is_gone(self):
        return self.gone


class Writer:
    trouble = None

    def __init__(self):
        self.events = []

    def append(self, event):
        self.events.append(event)

    def flush(self):
        return True


@pytest.fixture
def channel():
    made = Channel()
    yield made
    made.close()


@pytest.fixture
def watched(channel):
    writer, resized = Writer(), []
    disk = Helper("test-disk")
    output = Output(Tee(channel), Journal(writer, disk), lambda: resized.append(1))
    yield output, writer, resized
    disk.close()


def lines(writer):
    return [event for event in writer.events if isinstance(event, TrainingLine)]


def notes(writer):
    return [event.text for event in writer.events if isinstance(event, Note)]


def read(output):
    return sum(action() for _, _, action in output.readers())


def test_a_line_that_matters_is_recorded_with_the_time_at_which_it_was_read(watched, channel):
    output, writer, _ = watched
    channel.say(b"password: hunter2\n" + WORKER, at_ns=99)

    assert read(output) == 1
    [line] = lines(writer)
    assert (line.about, line.ts_ns, line.stream, line.source) == ("worker_killed", 99, "stdout", "text")
    assert "hunter2" not in repr(writer.events)


@pytest.mark.parametrize(
    "told",
    [
        b"hf_hunter2abcdefghijklmnopqrstuvwxyz0123",
        b"with HF_TOKEN=hunter2",
        b"{'api_key': 'hunter2'}",
        b"--wandb-api-key hunter2",
        b"Authorization: Bearer hunter2",
        b"https://user:hunter2@example.com/x",
        b"AWS_SECRET_ACCESS_KEY = hunter2",
    ],
)
def test_what_looks_like_a_secret_is_masked_in_what_is_recorded(watched, channel, told):
    output, writer, _ = watched
    channel.say(b"RuntimeError: DataLoader timed out after 5 seconds " + told + b"\n")
    read(output)

    assert lines(writer)[0].text.startswith("RuntimeError: DataLoader timed out after 5 seconds")
    assert "hunter2" not in repr(writer.events)


def test_the_last_line_and_the_last_step_come_at_the_end(watched, channel):
    output, writer, _ = watched
    channel.say(b"step 1\nstep 2\nstep 3\nKilled")
    read(output)
    output.finish()

    assert [line.text for line in lines(writer)] == ["step 1", "step 3", "Killed"]


def test_a_new_size_is_passed_on(watched, channel):
    output, _, resized = watched
    channel.say(what=RESIZED)
    read(output)

    assert resized == [1]


def test_what_is_missing_in_the_log_is_noted_with_the_reason(watched, channel):
    output, writer, _ = watched
    channel.say(b"x", missing=12, error=errno.ENOSPC)
    read(output)
    output.finish()

    assert output.log_trouble == "12 bytes are missing (No space left on device)"
    assert notes(writer) == [f"the log of the job's output is not whole: {output.log_trouble}"]


def test_what_nobody_took_is_noted(watched, channel):
    output, writer, _ = watched
    channel.say(b"x", refused=9, error=errno.ENOSPC)
    read(output)
    output.finish()

    assert notes(writer) == [
        "9 bytes of the job's output could not be written where they were to go: No space left on device"
    ]
    assert output.log_trouble is None


def test_what_was_not_seen_is_noted_and_no_line_is_made_of_two_halves(watched, channel):
    output, writer, _ = watched
    channel.say(WORKER[:20])
    channel.say(WORKER[20:], unseen=5 << 20)
    read(output)
    output.finish()

    assert lines(writer) == []
    assert notes(writer) == ["5 MiB of the job's output came too fast to be looked through"]


def test_a_flood_is_not_looked_through_for_ever(watched, channel, monkeypatch):
    output, writer, _ = watched
    monkeypatch.setattr(output_module, "BURST_NS", 5_000_000)
    monkeypatch.setattr(output_module, "COST_SHARE", 1_000_000_000)
    for _ in range(2000):
        channel.say(b"step 1: loss 2\n" * 2000)
    channel.say(WORKER)
    while read(output):
        pass
    output.finish()

    assert "worker_killed" not in {line.about for line in lines(writer)}
    assert any("too fast" in note for note in notes(writer))


def test_nothing_is_noted_where_all_is_well(watched, channel):
    output, writer, _ = watched
    channel.say(b"all is well\n")
    channel.say(what=END)
    read(output)
    output.finish()

    assert writer.events == []


def test_the_end_waits_until_all_is_copied(watched, channel):
    output, writer, _ = watched
    for _ in range(50):
        channel.say(WORKER)
    output.settle()

    assert (channel.asked, channel.waiting, len(lines(writer))) == (1, [], 50)


def test_the_end_does_not_wait_for_a_copy_that_never_comes(watched, channel, monkeypatch):
    output, _, _ = watched
    monkeypatch.setattr(output_module, "PATIENCE_NS", 1)
    channel.answers = False

    output.settle()

    assert not channel.dry


def test_the_end_does_not_wait_for_a_copier_that_is_gone(watched, channel):
    output, _, _ = watched
    channel.answers = False
    output._tee.gone = True

    output.settle()

    assert not channel.dry


def test_each_line_that_is_recorded_is_told():
    channel, writer, told, disk = Channel(), Writer(), [], Helper("test-disk")
    output = Output(Tee(channel), Journal(writer, disk), lambda: None, told=told.append)
    channel.say(b"nothing of note\n" + WORKER)
    read(output)
    channel.close()
    disk.close()

    assert [line.about for line in told] == ["worker_killed"]
