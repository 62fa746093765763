# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run --until`: a real job is ended when it has gone far enough, and that is no failure of it."""

import sys

from tracer.events import EndAsked, SignalSent, TrainingLine

TRAIN = """
import itertools, time
for epoch in itertools.count(1):
    print(f"epoch {epoch} step 0", flush=True)
    time.sleep(0.05)
"""
WITH_WORKERS = """
import ctypes, os, signal, time
def worker():
    ctypes.CDLL(None).prctl(15, b"pt_data_worker", 0, 0, 0)
    time.sleep(1.5)
    os._exit(0)
while True:
    pids = [pid for _ in range(2) if (pid := os.fork()) or worker()]
    for pid in pids:
        os.waitpid(pid, 0)
"""


def test_a_job_is_ended_after_so_many_epochs_of_its_own_output(oomtrace, tmp_path):
    run = oomtrace(sys.executable, "-S", "-c", TRAIN, options=("--until", "epochs=2"))

    [asked] = run.events(EndAsked)
    assert run.code == 0
    assert (asked.why, asked.signal) == ("epochs=2 was reached", 15)
    assert run.primary["as_asked"]
    assert run.primary["headline"] == "Ended by oomtrace, as asked: epochs=2 was reached"
    assert [one.comm for one in run.events(SignalSent) if one.signal == 15]
    assert run.out.startswith("epoch 1 step 0\nepoch 2 step 0\n")
    assert run.events(TrainingLine)
    assert not list(tmp_path.glob("*.log"))


def test_a_job_that_says_nothing_is_ended_by_starts_of_its_workers(oomtrace):
    run = oomtrace(sys.executable, "-S", "-c", WITH_WORKERS, options=("--until", "epochs=1"))

    assert run.code == 0
    assert run.primary["headline"].endswith("epochs=1 was reached, by starts of DataLoader workers")


def test_a_job_is_ended_after_a_time(oomtrace):
    run = oomtrace(sys.executable, "-S", "-c", TRAIN, options=("--for", "1s"))

    assert run.code == 0
    assert run.primary["headline"] == "Ended by oomtrace, as asked: 1.0 s have passed"
    assert run.verdict["projection"] is not None
