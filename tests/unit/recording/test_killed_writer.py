# SPDX-License-Identifier: Apache-2.0
"""A writer is killed at random: what it has acknowledged is in the file."""

import random
import subprocess
import sys

from tests.architecture.checkout import ROOT
from tracer.events import Note
from tracer.recording import read_recording

KILLS = 200
NURSERY = '''
import os, random, signal, sys
from tracer.events import Header, Note
from tracer.recording import RecordingWriter

def write(path, told, dice):
    """Says after each flush how many events are safe, until it is killed."""
    header = Header(ts_ns=1, source="tracer", version="0", realtime_ns=2, boottime_ns=3)
    writer = RecordingWriter.create(path, header)
    while True:
        for _ in range(dice.choice((1, 1, 2, 30, 400))):
            text = f"{writer.events} " * dice.choice((1, 5, 50, 900))
            writer.append(Note(ts_ns=writer.events, source="tracer", text=text))
        assert writer.flush()
        os.write(told, b"%d\\n" % (writer.events - 1))

folder, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(count):
    dice = random.Random(f"{seed} {number}")
    reads, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            write(f"{folder}/{number}", told, dice)
        finally:
            os._exit(1)
    os.close(told)
    with open(reads) as acknowledged:
        lines = [acknowledged.readline() for _ in range(dice.randrange(1, 40))]
        for _ in range(dice.randrange(3000)):  # somewhere within what it does next
            pass
        os.kill(child, signal.SIGKILL)
        lines += acknowledged.readlines()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    print(lines[-1].strip(), flush=True)
'''


def test_no_event_that_was_acknowledged_is_lost_wherever_the_writer_is_killed(tmp_path):
    seed = random.randrange(1 << 32)  # said when it fails, in the command
    done = subprocess.run(
        [sys.executable, "-c", NURSERY, str(tmp_path), str(KILLS), str(seed)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    acknowledged = [int(line) for line in done.stdout.split()]

    assert len(acknowledged) == KILLS
    for number, last in enumerate(acknowledged):
        with read_recording(tmp_path / str(number)) as reader:
            found = list(reader)
        assert [event.seq for event in found] == list(range(len(found)))
        assert len(found) > last, f"killed as {number}th with seed {seed}"
        assert all(event.text.startswith(f"{event.seq} ") for event in found if isinstance(event, Note))
        damage = reader.damage
        assert (damage.damaged_lines, damage.missing, damage.duplicates) == (0, 0, 0)
